# SPDX-License-Identifier: Apache-2.0
"""Moments of a report as times of day, UTC."""

import datetime
from collections.abc import Mapping
from typing import Any


def clock(seconds: float) -> str:
    """Return the time of day, UTC."""
    return f"{datetime.datetime.fromtimestamp(seconds, datetime.UTC):%H:%M:%S}"


def time_of_day(moment: str) -> str:
    """Return ``19:16:02Z`` for a moment in RFC 3339 form; empty for an empty text."""
    return f"{clock(unix(moment))}Z" if moment else ""


def when(test: Mapping[str, Any]) -> str:
    """Return when and where a test ran; return an empty string if its start is not known."""
    if not test.get("started"):
        return ""
    start = unix(test["started"])
    worker = f", worker {test['worker']}" if test["worker"] else ""
    return f"{clock(start)} to {clock(start + lasted(test))} UTC{worker}"


def lasted(test: Mapping[str, Any]) -> float:
    """Return the seconds that a test took."""
    return float(test["seconds"])


def unix(moment: str) -> float:
    """Convert a moment from RFC 3339 to Unix seconds."""
    return datetime.datetime.fromisoformat(moment).timestamp()
