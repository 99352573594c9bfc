# SPDX-License-Identifier: Apache-2.0
"""``hybridlab faults``: a kubeconfig is taken on either side of what is to be done, and ``heal all`` heals all."""

from pathlib import Path
from typing import Any

import pytest

from hybridlab.cli import main

DO = (["list"], ["active"], ["inject", "node-dead"], ["heal"], ["heal", "all"])


@pytest.mark.parametrize("action", DO[1:])
def test_a_kubeconfig_is_taken_before_and_after_the_action(action: list[str], capsys: Any) -> None:
    first, *rest = action
    for words in (
        ["--kubeconfig", "X", *action],
        [*action, "--kubeconfig", "X"],
        [first, "--kubeconfig", "X", *rest],
    ):
        assert main.main(["faults", *words]) == 4
        assert capsys.readouterr().err == "hybridlab: --kubeconfig X: no such file\n"


@pytest.mark.parametrize("words", [[], ["all"]])
def test_heal_and_heal_all_ask_for_all(
    words: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(main, "_running", lambda: [tmp_path])
    monkeypatch.setattr("hybridlab.cli.main.control.ask", lambda _, request: asked.append(request))
    assert main.main(["faults", "heal", *words]) == 0
    assert asked == [{"op": "heal-all"}]
