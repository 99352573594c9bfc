# SPDX-License-Identifier: Apache-2.0
"""A file of events starts empty, has each line as soon as it is written, and ends no run."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from conformance.errors import UsageProblem
from conformance.run.events import SCHEMA, Events

COMMAND = "::error::\x1b[31mred"
"""What a CI system and a terminal would take for a command."""


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def test_a_line_is_there_at_once_with_its_schema_and_its_time_in_utc(tmp_path: Path) -> None:
    events = Events(tmp_path / "events")
    events.write("note", {"text": "größer"})
    (line,) = lines(tmp_path / "events")
    assert (line["schema"], line["event"], line["text"]) == (SCHEMA, "note", "größer")
    assert "größer" in (tmp_path / "events").read_text(encoding="utf-8")
    assert line["at"].endswith("Z")
    assert len(line["at"]) == len("2026-11-29T10:00:00.000Z")
    age = datetime.now(UTC) - datetime.fromisoformat(line["at"].replace("Z", "+00:00"))
    assert abs(age) < timedelta(hours=1)


def test_a_file_of_an_earlier_run_begins_anew(tmp_path: Path) -> None:
    file = tmp_path / "events"
    file.write_text("of an earlier run\n")
    events = Events(file)
    events.write("note", {"text": "first"})
    events.write("note", {"text": "second"})
    assert [line["text"] for line in lines(file)] == ["first", "second"]


def test_no_text_commands_a_reader_however_deep_it_lies(tmp_path: Path) -> None:
    events = Events(tmp_path / "events")
    events.write("test_ended", {"claims": [{"part": COMMAND}], "reason": COMMAND, "seconds": 1.5})
    (line,) = lines(tmp_path / "events")
    assert line["seconds"] == 1.5
    for text in (line["reason"], line["claims"][0]["part"]):
        assert "red" in text
        assert "\x1b" not in text
        assert not text.startswith("::")


def test_what_looks_like_a_secret_is_taken_out(tmp_path: Path) -> None:
    Events(tmp_path / "events").write("note", {"text": "token: abcdefgh12345678"})
    (line,) = lines(tmp_path / "events")
    assert "abcdefgh12345678" not in line["text"]


def test_a_full_disk_ends_the_file_with_its_reason_and_not_the_run() -> None:
    events = Events(Path("/dev/full"))
    assert events.problem == ""
    events.write("note", {"text": "lost"})
    assert events.problem == "--events: the file ends early: No space left on device"
    events.problem = ""
    events.write("note", {"text": "lost too"})
    assert events.problem == "", "nothing is written after that"


def test_without_a_file_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    events = Events()
    events.write("note", {"text": "nowhere"})
    assert (events.problem, list(tmp_path.iterdir())) == ("", [])


def test_a_file_that_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match=r"cannot be written: Is a directory"):
        Events(tmp_path)
