# SPDX-License-Identifier: Apache-2.0
"""libnftables: the system's, or else the copy that ``hybridlab fetch-nftables`` put into this
Python's environment."""

import ctypes
import sys
from pathlib import Path

LIBRARY = "libnftables.so.1"
NEEDED = ("libmnl.so.0", "libnftnl.so.11", "libjansson.so.4", "libxtables.so.12")
"""Libraries that libnftables needs in addition to the C library and libgmp, ordered by their
dependencies."""
FETCHED = Path(sys.prefix, "lib", "hybridlab")


class NftMissing(Exception):
    """libnftables cannot be loaded."""


def load() -> ctypes.CDLL:
    """Load libnftables. Raise NftMissing with the reason why the system's copy could not be
    loaded.
    """
    try:
        return ctypes.CDLL(LIBRARY)
    except OSError as error:
        if not (FETCHED / LIBRARY).exists():
            raise NftMissing(str(error)) from error
    try:
        # Each library is loaded by its path and globally, so that no search path is needed.
        for name in NEEDED:
            ctypes.CDLL(str(FETCHED / name), ctypes.RTLD_GLOBAL)
        return ctypes.CDLL(str(FETCHED / LIBRARY))
    except OSError as error:
        raise NftMissing(f"{LIBRARY} in {FETCHED} cannot be loaded: {error}") from error
