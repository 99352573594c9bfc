# SPDX-License-Identifier: Apache-2.0
"""The kernel's refusals, as a single exception with the object, the reason and the number.

Remedies are deliberately left out: the caller knows why it needed the object, and adds them.
"""

import errno as errno_names
import os


class KernelError(Exception):
    """The kernel refused an operation; the message has the object and the kernel's own reason."""

    def __init__(self, what: str, number: int, detail: str = "") -> None:
        name = errno_names.errorcode.get(number, str(number))
        super().__init__(f"{what}: {detail or os.strerror(number)} ({name})")
        self.what = what
        self.errno = number
        """The positive errno."""
