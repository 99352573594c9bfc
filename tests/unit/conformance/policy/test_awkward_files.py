# SPDX-License-Identifier: Apache-2.0
"""Awkward files get the same answer, or the same refusal of one line, from every command and in
every format: no traceback, and nothing is called open that was not judged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from conformance.cli import main

CASES: list[dict[str, Any]] = yaml.safe_load(
    Path(__file__).with_name("awkward-files.yaml").read_text(encoding="utf-8")
)
PODS = """apiVersion: v1
kind: Pod
metadata: {name: w, namespace: a, labels: {app: w}}
spec: {os: {name: windows}, containers: [{name: c}]}
status: {podIP: 10.1.0.1}
---
apiVersion: v1
kind: Pod
metadata: {name: l, namespace: a, labels: {app: l}}
spec: {os: {name: linux}, containers: [{name: c}]}
status: {podIP: 10.1.0.2}
---
"""
OPEN = "- {from: 203.0.113.9, to: 'a/*', port: 80, expect: open}\n"
LONGEST_LINE = 600


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_every_command_reads_or_refuses_it_alike(
    case: dict[str, Any], capsys: Any, tmp_path: Path
) -> None:
    file, assertions = tmp_path / "file.yaml", tmp_path / "open.yaml"
    file.write_text(("" if case.get("alone") else PODS) + case["text"])
    assertions.write_text(OPEN)
    refused = case.get("refused", "").replace("FILE", str(file))
    code = main(["policy", str(file)])
    printed = capsys.readouterr()
    assert code == (4 if refused else 0)
    assert printed.err.removeprefix("ERROR: ").startswith(refused)
    if not refused:
        assert printed.out.partition("\n")[0].endswith(f"as promised {case['promises']}")
    for command in (
        ["--format", "json", "--all"],
        ["--format", "markdown"],
        ["--format", "html"],
        ["diff", str(file)],
        ["diff", "promise", "windows", "--format", "html"],
        ["ask", "--from", "203.0.113.9", "--to", "a/*", "--port", "80"],
        ["check", str(assertions)],
    ):
        code = main(["policy", *command, str(file)])
        printed = capsys.readouterr()
        assert (code == 4) is bool(refused), command
        assert code in (0, 1, 4)
        assert printed.err.count("\n") == bool(refused)
        assert len(printed.err) <= LONGEST_LINE
        assert "Traceback" not in printed.err
    if "not judged" in case.get("promises", ""):
        assert code == 1, "an assertion holds about a path that was not judged"


def test_there_are_enough_of_them() -> None:
    refused = [case["name"] for case in CASES if "refused" in case]
    assert len(CASES) >= 80
    assert len(refused) >= 20


@pytest.mark.parametrize("text", ["resources: [a.yaml]", "apiVersion: v1\nkind: Kustomization"])
def test_a_kustomization_in_a_folder_is_refused_with_what_to_do(
    text: str, capsys: Any, tmp_path: Path
) -> None:
    file = tmp_path / "kustomization.yaml"
    file.write_text(text)
    assert main(["policy", str(tmp_path)]) == 4
    assert capsys.readouterr().err == (
        f"ERROR: manifest {file}: a document is not a Kubernetes object, which needs "
        "apiVersion, kind and metadata: "
        "render it first, with `kubectl kustomize`\n"
    )
