# SPDX-License-Identifier: Apache-2.0
"""A missing feature of this machine.

Separate from ``kernel.preflight`` so that importing it costs nothing.
"""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Lack:
    """A missing feature and how to allow it."""

    what: str
    """``user namespaces``, ``vxlan devices`` ..."""
    why: str
    """The attempt, and the kernel's own reason."""
    remedy: str
    """The command to type, or the request to the administrator."""

    def __str__(self) -> str:
        return f"no {self.what}: {self.why}; remedy: {self.remedy}"
