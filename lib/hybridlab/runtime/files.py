# SPDX-License-Identifier: Apache-2.0
"""The files of a container as long as no real process runs in it: a dictionary, not a file system.

Most containers never start a real process, so a file system is built only for the first real
process (:mod:`hybridlab.runtime.rootfs`). These files are then written into the file system and
read from there.
"""

import errno
import os
import posixpath
from typing import Literal


def normalize(path: str, system: Literal["linux", "windows"], working_dir: str = "") -> str:
    """Return the key under which ``path`` is stored: absolute; on Windows lower-case with
    backslashes and a drive."""
    if system == "linux":
        return posixpath.normpath(posixpath.join("/", working_dir, path))
    path = path.replace("/", "\\")
    if path.startswith("\\"):
        path = "C:" + path
    elif path[1:2] != ":":
        path = (working_dir.replace("/", "\\").rstrip("\\") or "C:") + "\\" + path
    return path.lower()


def place(path: str, working_dir: str = "") -> str:
    """Return the real path for a Windows path in a container with a file system of its own, such as
    ``/c/probe/x.ps1``. It is in lower case, since Windows ignores case."""
    drive, _, rest = normalize(path, "windows", working_dir).partition(":")
    return posixpath.join("/", drive, rest.replace("\\", "/").lstrip("/"))


class MemoryFiles:
    """Files in a dictionary; implements ``applet.Files``. EmptyDir volumes are dictionaries that
    the containers of a pod share."""

    def __init__(self, system: Literal["linux", "windows"], working_dir: str = "") -> None:
        self._system = system
        self._working_dir = working_dir
        self._own: dict[str, bytes] = {}
        self._shared: dict[str, dict[str, bytes]] = {}

    def share(self, mount: str, volume: dict[str, bytes]) -> None:
        """Make everything below ``mount`` a part of ``volume``."""
        self._shared[normalize(mount, self._system)] = volume

    def _place(self, path: str) -> tuple[dict[str, bytes], str]:
        key = normalize(path, self._system, self._working_dir)
        separator = "/" if self._system == "linux" else "\\"
        for mount, volume in self._shared.items():
            if key.startswith(mount + separator):
                return volume, key[len(mount) + 1 :]
        return self._own, key

    def read(self, path: str) -> bytes:
        volume, key = self._place(path)
        if key not in volume:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return volume[key]

    def write(self, path: str, data: bytes) -> None:
        """Create or replace a file; missing directories are created."""
        volume, key = self._place(path)
        volume[key] = data

    def volume(self, mount: str) -> dict[str, bytes]:
        """Return the volume mounted at ``mount``, by path below it."""
        return self._shared[normalize(mount, self._system)]

    def own(self) -> dict[str, bytes]:
        """Return the contents of all files that are on no volume, by path."""
        return self._own
