# SPDX-License-Identifier: Apache-2.0
"""One thing that this machine does not give a lab.

Apart from ``kernel.preflight`` so that reading it costs no imports.
"""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Lack:
    """What is missing and how to allow it."""

    what: str
    """``user namespaces``, ``vxlan devices`` ..."""
    why: str
    """What was tried and the kernel's own reason."""
    remedy: str
    """What to type or to ask the administrator for."""

    def __str__(self) -> str:
        return f"{self.what}: {self.why}. To allow it: {self.remedy}"
