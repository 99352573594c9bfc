# SPDX-License-Identifier: Apache-2.0
"""Commands that run a part of a report again, in a form that users can pass on to other people."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_WORD = re.compile(r"(?:'[^']*'|\S)+")
_MINE = re.compile(r"(^|=)('?)(?:~?/|[A-Za-z]:\\)(?:.*[/\\])?")
_THERE = ("--cluster", "--kubeconfig", "--context", "--lab-profile", "--lab-powershell", "--nodes")
_ALLOWED = ("--allow-disruptive", "--allow-cluster-disruptive")
"""``_THERE``: options that a command needs to reach the same cluster. ``_ALLOWED``: options to
include tests that had a node or the cluster to themselves."""


def shareable(command: str) -> str:
    """Return a command without this machine's folders: ``--kubeconfig=/home/me/lane.yaml`` becomes
    ``--kubeconfig=lane.yaml``."""
    words = [(word, _MINE.search(word)) for word in _WORD.findall(command)]
    return " ".join(_MINE.sub(r"\1\2", word) for word, mine in words if not mine or mine[1])


def run_again(
    claims: Sequence[Mapping[str, Any]], tests: Mapping[str, Mapping[str, Any]], command: str
) -> str:
    """Return the shortest command that decides claims again under the same conditions. ``command``:
    the command of the run."""
    failed = [
        tests.get(result["test"], {})
        for claim in claims
        for result in claim["results"]
        if result["verdict"] == claim["verdict"]
    ]
    commands = [(test.get("explanation") or {}).get("again") for test in failed]
    words = _WORD.findall(
        shareable(commands[0] if len(commands) == 1 and commands[0] else command)
    )  # if there are several commands, each names its own nodes
    is_alone = any(test.get("exclusive") for test in failed)
    return " ".join(
        [
            "calico-conformance run" if words[:1] == ["calico-conformance"] else "pytest",
            *(f"--claim {claim['id']}" for claim in claims),
            *_options(words, (*_THERE, *_ALLOWED) if is_alone else _THERE),
        ]
    )


def _options(words: Sequence[str], wanted: Sequence[str]) -> Iterator[str]:
    """Yield the wanted options of a command, with their values."""
    for word, following in zip(words, [*words[1:], ""], strict=True):
        name, equals, _ = word.strip("'").partition("=")
        if name in wanted:
            yield word if equals or name in _ALLOWED else f"{word} {following}"
