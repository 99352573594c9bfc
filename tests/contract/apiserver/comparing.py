# SPDX-License-Identifier: Apache-2.0
"""Compares answers with the golden answers, and reports the differences."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tests.contract.apiserver.conversation import FOLDER
from tests.contract.apiserver.holding import Answer

GOLDEN = FOLDER / "golden"
KNOWN = FOLDER / "differences.yaml"


class Difference(NamedTuple):
    """A value that differs."""

    path: str
    golden: Any
    answered: Any

    def __str__(self) -> str:
        return f"{self.path}: a real server has {_short(self.golden)}, this one {_short(self.answered)}"


ABSENT = "<absent>"


def _short(value: Any) -> str:
    text = value if value == ABSENT else json.dumps(value)
    return text if len(text) <= 300 else text[:300] + "..."


def differences(golden: Any, answered: Any, path: str = "") -> Iterator[Difference]:
    """Yield every value in which two answers differ."""
    if isinstance(golden, dict) and isinstance(answered, dict):
        for key in sorted(golden.keys() | answered.keys()):
            here = f"{path}.{key}" if path else key
            yield from differences(golden.get(key, ABSENT), answered.get(key, ABSENT), here)
    elif isinstance(golden, list) and isinstance(answered, list) and len(golden) == len(answered):
        for index, (one, other) in enumerate(zip(golden, answered, strict=True)):
            yield from differences(one, other, f"{path}[{index}]")
    elif type(golden) is not type(answered) or golden != answered:
        yield Difference(path, golden, answered)


def golden_path(name: str) -> Path:
    """Return the path of the golden answers of a conversation."""
    return GOLDEN / f"{name}.jsonl"


def golden_answers(name: str) -> dict[str, dict[str, Any]]:
    """Return the golden answers of a conversation by step."""
    lines = golden_path(name).read_text().splitlines()
    return {answer["step"]: answer for answer in map(json.loads, lines)}


def write_golden(name: str, answers: list[Answer]) -> None:
    """Store answers as golden answers."""
    lines = [json.dumps(answer.shared(), sort_keys=True, ensure_ascii=False) for answer in answers]
    golden_path(name).write_text("\n".join(lines) + "\n")


def known_differences() -> dict[str, str]:
    """Map ``conversation/step`` to the reason for which the lab's answer may differ."""
    reasons: dict[str, str] = {}
    for entry in yaml.safe_load(KNOWN.read_text()) or ():
        for step in entry["steps"]:
            reasons[step] = entry["reason"]
    return reasons
