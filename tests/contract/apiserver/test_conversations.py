# SPDX-License-Identifier: Apache-2.0
"""The lab's API server answers like a real one, except where ``differences.yaml`` gives a
reason."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.apiserver.comparing import (
    differences,
    golden_answers,
    golden_path,
    known_differences,
)
from tests.contract.apiserver.conversation import CONVERSATIONS, Conversation, load
from tests.contract.apiserver.holding import Answer, Holder, Server
from tests.contract.apiserver.servers import lab_server, missing_binaries, real_server

MOST = 40
"""Differences that may stay."""
ASSETS = os.environ.get("KUBEBUILDER_ASSETS", "")
NAMES = [path.stem for path in CONVERSATIONS]


def conversation(name: str) -> Conversation:
    return load(next(path for path in CONVERSATIONS if path.stem == name))


@pytest.fixture(scope="module")
def lab() -> Iterator[Server]:
    with lab_server() as server:
        yield server


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    if not ASSETS:
        pytest.skip(
            "KUBEBUILDER_ASSETS names no folder with etcd and kube-apiserver (make kube-binaries makes one)"
        )
    missing = missing_binaries(Path(ASSETS))
    if missing:
        pytest.fail(f"KUBEBUILDER_ASSETS={ASSETS} lacks {', '.join(missing)}")
    with real_server(Path(ASSETS), tmp_path_factory.mktemp("real")) as server:
        yield server


def differing(name: str, answers: list[Answer]) -> dict[str, str]:
    """Step to where its answer is not the golden one."""
    golden = golden_answers(name)
    assert [answer.step for answer in answers] == list(golden), (
        f"golden answers of {name} belong to other steps"
    )
    found: dict[str, str] = {}
    for answer in answers:
        shared = json.loads(json.dumps(answer.shared()))
        lines = [f"  {difference}" for difference in differences(golden[answer.step], shared)]
        if lines:
            found[f"{name}/{answer.step}"] = "\n".join(lines)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_the_lab_answers_as_a_real_server_did(lab: Server, name: str) -> None:
    found = differing(name, Holder(lab).hold(conversation(name)))
    known = {step for step in known_differences() if step.startswith(f"{name}/")}
    news = [f"{step}\n{found[step]}" for step in found if step not in known]
    assert not news, "\n".join([f"{len(news)} answers differ from the golden ones:", *news])
    gone = known - found.keys()
    assert not gone, f"these no longer differ, take them out of differences.yaml: {sorted(gone)}"


@pytest.mark.parametrize("name", NAMES if ASSETS else ["all of them"])
def test_a_real_server_still_answers_so(real: Server, name: str) -> None:
    held = conversation(name)
    if held.controllers and not real.controllers:
        pytest.skip("kube-controller-manager is not in the folder of KUBEBUILDER_ASSETS")
    found = differing(name, Holder(real).hold(held))
    command = "python -m tests.contract.apiserver.record"
    assert not found, "\n".join(
        [f"the golden answers are out of date ({command}):", *found, *found.values()]
    )


def test_every_difference_has_its_reason_and_a_step() -> None:
    known = known_differences()
    assert len(known) <= MOST
    steps = {
        f"{name}/{step.name}"
        for name in NAMES
        for step in conversation(name).steps
        if not step.silent
    }
    assert known.keys() <= steps
    assert all(len(reason) > 40 for reason in known.values())


def test_every_conversation_has_golden_answers() -> None:
    assert [name for name in NAMES if not golden_path(name).exists()] == []
    assert {path.stem for path in golden_path("any").parent.glob("*.jsonl")} == set(NAMES)
