# SPDX-License-Identifier: Apache-2.0
"""The exit of the ``hybridlab`` command: documented exit codes and a single clear line."""

import sys

OK = 0
USAGE = 4
"""Exit code: an option, profile or file cannot be used."""
ENVIRONMENT = 7
"""Exit code: this machine lacks a feature that the lab needs, or a process of the lab died."""


class Stop(Exception):
    """Ends the command: ``message`` is printed to standard error, and ``code`` is the exit code.
    The first line of the message stands alone."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def report(stop: Stop) -> int:
    """Print the message and return the exit code."""
    print(f"hybridlab: {stop}", file=sys.stderr)
    return stop.code
