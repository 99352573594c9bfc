# SPDX-License-Identifier: Apache-2.0
"""Errors of a fault itself."""


class BadFault(ValueError):
    """An unknown fault, or invalid parameters; the message lists the valid choices."""


class FaultFailed(Exception):
    """A fault is not in effect after its injection, or is still in effect after its removal."""
