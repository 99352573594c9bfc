# SPDX-License-Identifier: Apache-2.0
"""``--events=FILE``: one JSON line for each event of a run as it happens, for programs that follow
the run.

docs/schema/events.schema.json describes the lines. No text in them can control a terminal or a CI
system, whose logs may follow the file, and texts that look like secrets are removed.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from conformance.errors import UsageProblem
from conformance.printing import block, within
from conformance.scrubbing import scrubbed

SCHEMA = "1"


class Events:
    """A file of events; without a file, nothing is written."""

    def __init__(self, path: Path | None = None) -> None:
        """Begin the file anew.  Raise UsageProblem."""
        self._file: TextIO | None = None
        self.problem = ""
        """Why no further event could be written; a full disk does not end the run."""
        if path is None:
            return
        try:
            self._file = path.open("w", encoding="utf-8", buffering=1)
        except OSError as error:
            raise UsageProblem(f"--events={path}: cannot be written: {error.strerror}") from error

    def write(self, event: str, fields: Mapping[str, Any]) -> None:
        """Write an event, unless writing has failed before."""
        if self._file is None:
            return
        at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = {
            "schema": SCHEMA,
            "at": at,
            "event": event,
            **within(dict(fields), lambda text: scrubbed(block(text))),
        }
        try:
            self._file.write(json.dumps(line, ensure_ascii=False) + "\n")
        except OSError as error:
            self._file = None
            self.problem = f"--events: the file ends early: {error.strerror}"
