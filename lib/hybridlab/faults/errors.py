# SPDX-License-Identifier: Apache-2.0
"""What can be wrong about a fault itself."""


class BadFault(ValueError):
    """No such fault, or parameters that it does not take; the message lists what there is."""


class FaultFailed(Exception):
    """A fault is not in effect after its injection, or still is after its healing."""
