# SPDX-License-Identifier: Apache-2.0
"""What the kernel refuses, as one exception with the object, the reason and the number.

Deliberately not here: what to do about it; that is said by whoever knows why the object was wanted.
"""

import errno as errno_names
import os


class KernelError(Exception):
    """The kernel refused an operation; the message says which object and the kernel's own reason."""

    def __init__(self, what: str, number: int, detail: str = "") -> None:
        name = errno_names.errorcode.get(number, str(number))
        super().__init__(f"{what}: {detail or os.strerror(number)} ({name})")
        self.what = what
        self.errno = number
        """The positive errno."""
