# SPDX-License-Identifier: Apache-2.0
"""The only interface for attachments: a file in the run's folder, and a copy in Allure's results if
the run writes them.

``expect`` and other packages get an instance from the plugin; they never import Allure.
"""

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import allure

from conformance.printing import plain, single
from conformance.verdicts.claims import TestOutcome


class Attachments:
    """Attachments of the test that runs now."""

    def __init__(self, folder: Path) -> None:
        self._root = folder
        self._test = "outside-tests"
        self._at_end: dict[str, Callable[[], str]] = {}

    def enter(self, test: str) -> None:
        """Assign further attachments to the test with this node id."""
        self._test = slug(test)
        self._at_end = {}

    def at_end(self, name: str, body: Callable[[], str]) -> None:
        """Attach a text once the body of the running test has ended, however it ends; attach
        nothing if the text is empty."""
        self._at_end[name] = body

    def end(self) -> None:
        """Note that the body of the running test has ended."""
        waiting = self._at_end
        self._at_end = {}
        for name, body in waiting.items():
            if text := body():
                self.text(name, text)

    @property
    def folder(self) -> Path:
        """Return the folder of this test's attachments, which need not exist yet."""
        return self._root / self._test

    def text(self, name: str, body: str) -> Path:
        """Attach a text, for example an exec transcript; return its file."""
        return self._attach(name, body, allure.attachment_type.TEXT, ".txt")

    def json(self, name: str, value: Any) -> Path:
        """Attach a value as JSON; values that JSON cannot express are written as text."""
        body = json.dumps(value, indent=1, ensure_ascii=False, default=str)
        return self._attach(name, body, allure.attachment_type.JSON, ".json")

    def yaml(self, name: str, body: str) -> Path:
        """Attach YAML text, for example the policies in force."""
        return self._attach(name, body, allure.attachment_type.YAML, ".yaml")

    def pcap(self, name: str, body: bytes) -> Path:
        """Attach captured packets, for Wireshark and tcpdump."""
        return self._attach(name, body, allure.attachment_type.PCAP, ".pcap")

    def _attach(
        self, name: str, body: str | bytes, kind: allure.attachment_type, suffix: str
    ) -> Path:
        """Write a file under a unique name, and attach the same content to Allure's report."""
        body = plain(body) if isinstance(body, str) else body
        name = single(name)
        self.folder.mkdir(parents=True, exist_ok=True)
        stem = slug(name)
        path = self.folder / f"{stem}{suffix}"
        number = 1
        while path.exists():
            number += 1
            path = self.folder / f"{stem}-{number}{suffix}"
        path.write_bytes(body.encode("utf-8") if isinstance(body, str) else body)
        allure.attach(body, name=name, attachment_type=kind)
        return path


def left(folder: Path, test: str) -> list[str]:
    """Return the names of a test's files below the folder of all attachments, in alphabetical
    order."""
    return sorted(path.name for path in (folder / slug(test)).glob("*") if path.is_file())


def slug(text: str) -> str:
    """Return a file name made from any text."""
    return (
        re.sub(r"[^A-Za-z0-9._-]+", "_", text.replace("->", "-to-")).strip("_")[-120:] or "unnamed"
    )


def of_tests(tests: Sequence[TestOutcome], folder: Path) -> dict[str, list[str]]:
    """Return the files that each test left, by test, relative to the run's folder."""
    found = {test.test: left(folder, test.test) for test in tests}
    return {
        test: [f"{folder.name}/{slug(test)}/{name}" for name in names]
        for test, names in found.items()
        if names
    }
