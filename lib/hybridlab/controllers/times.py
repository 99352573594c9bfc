# SPDX-License-Identifier: Apache-2.0
"""Timestamps as the API writes them."""

import time
from datetime import UTC, datetime


def timestamp(seconds: float | None = None) -> str:
    """``metav1.Time``: whole seconds, UTC; now when no time is given."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def micro_timestamp() -> str:
    """``metav1.MicroTime``: now, UTC."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def seconds_of(text: str) -> float:
    """The Unix time of a timestamp of either form."""
    return datetime.fromisoformat(text).timestamp()
