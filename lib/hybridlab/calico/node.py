"""What Calico knows of a machine before it runs there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Node:
    """One machine of the cluster."""

    name: str
    os: Literal["linux", "windows"]
    address: str
    """Underlay address."""
    prefix_length: int
    windows_build: str = ""
    """``10.0.20348.2762``; empty on Linux."""

    @property
    def windows(self) -> bool:
        """A Windows node."""
        return self.os == "windows"
