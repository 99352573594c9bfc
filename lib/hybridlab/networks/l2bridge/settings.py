"""What a profile says of l2bridge networks with BGP."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from hybridlab.profiles.model import PlaneSettings, Profile

BROKEN = (((3, 30, 3), (3, 30, 8)), ((3, 31, 0), (3, 31, 5)))
"""Releases, from the first to before the second, whose confd configures no BGP on Windows (calico#11714, #12063)."""


@dataclass(frozen=True, kw_only=True)
class L2BridgeSettings(PlaneSettings):
    """Calico's BGP without encapsulation, over one subnet."""

    kind: Literal["l2bridge"] = "l2bridge"

    def problem(self, profile: Profile) -> tuple[str, str] | None:
        found = re.match(r"v(\d+)\.(\d+)\.(\d+)", profile.calico.version)
        version = tuple(map(int, found.groups())) if found else ()
        if any(first <= version < end for first, end in BROKEN):
            return "", f"is l2bridge: Calico {profile.calico.version} configures no BGP on Windows, take v3.31.7"
        return None
