# SPDX-License-Identifier: Apache-2.0
"""Times as ``kubectl get`` shows them: ``45s``, ``3m20s``, ``5h``, ``12d``, ``2y31d``."""

from datetime import UTC, datetime

MINUTE = 60
HOUR = 3600
DAY = 86400
YEAR = 86400 * 365


def duration(seconds: int) -> str:  # noqa: PLR0911 (one line per scale)
    """Write a number of seconds in at most two units, as kubectl does."""
    if seconds < -1:
        return "<invalid>"
    if seconds < 2 * MINUTE:
        return f"{max(seconds, 0)}s"
    if seconds < 10 * MINUTE:
        minutes, rest = divmod(seconds, MINUTE)
        return f"{minutes}m{rest}s" if rest else f"{minutes}m"
    if seconds < 3 * HOUR:
        return f"{seconds // MINUTE}m"
    if seconds < 8 * HOUR:
        hours, rest = divmod(seconds, HOUR)
        return f"{hours}h{rest // MINUTE}m" if rest // MINUTE else f"{hours}h"
    if seconds < 2 * DAY:
        return f"{seconds // HOUR}h"
    if seconds < 8 * DAY:
        days, rest = divmod(seconds, DAY)
        return f"{days}d{rest // HOUR}h" if rest // HOUR else f"{days}d"
    if seconds < 2 * YEAR:
        return f"{seconds // DAY}d"
    if seconds < 8 * YEAR:
        years, rest = divmod(seconds, YEAR)
        return f"{years}y{rest // DAY}d" if rest // DAY else f"{years}y"
    return f"{seconds // YEAR}y"


def age(text: str | None) -> str:
    """Write the time that has passed since a timestamp of the API."""
    if not text:
        return "<unknown>"
    return duration(int((datetime.now(UTC) - datetime.fromisoformat(text)).total_seconds()))
