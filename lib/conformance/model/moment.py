# SPDX-License-Identifier: Apache-2.0
"""Moments, in the form that reports write."""

import datetime


def utc(seconds: float) -> str:
    """Return Unix seconds as UTC, RFC 3339, to the millisecond. Return an empty string for 0, which
    stands for an unknown moment."""
    if not seconds:
        return ""
    moment = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03}Z"
