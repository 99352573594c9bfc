# SPDX-License-Identifier: Apache-2.0
"""Timestamps in the form of the API."""

import time
from datetime import UTC, datetime


def timestamp(seconds: float | None = None) -> str:
    """Return a ``metav1.Time``: whole seconds, UTC; the present time by default."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def micro_timestamp() -> str:
    """Return the present time as ``metav1.MicroTime``, UTC."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def seconds_of(text: str) -> float:
    """Return the Unix time of a timestamp of either form."""
    return datetime.fromisoformat(text).timestamp()
