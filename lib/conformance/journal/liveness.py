# SPDX-License-Identifier: Apache-2.0
"""Tests whether a run is alive. If possible, the proof is a lock file that all its processes hold.

Every object that could outlive a run has an annotation with the path of the lock file and the
machine.
"""

import enum
import fcntl
import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from conformance.kube.client import Obj
from conformance.kube.ownership import PROCESS_ANNOTATION, annotations_of

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_SEPARATOR = ":"
_LOCK_FILE = re.compile(
    r"/.*/(\d{4}-\d\d-\d\dT\d\d-\d\d-\d\dZ-[0-9a-f]{6}/\.run|calico-conformance-\w+)/alive"
)
"""Matches the allowed paths: in the report folder of a run (``run.directory``), or in the folder
that a restoring process creates.  No other path in an annotation is opened, since any user may have
written the annotation."""


class Life(enum.Enum):
    """The known state of a run."""

    ALIVE = "alive"
    DEAD = "dead"
    UNKNOWN = "not known to be dead"


def sign(lock_file: Path) -> str:
    """Return the annotation's value: this machine's present boot, and the lock file."""
    return f"{_boot()}{_SEPARATOR}{lock_file.resolve()}"


def process(value: str) -> Life:
    """Return the state of a run by the lock file that an annotation names. If the lock is free, all
    processes of the run have died."""
    boot, _, path = value.partition(_SEPARATOR)
    if not boot or boot != _boot():
        return Life.UNKNOWN
    try:
        with _lock_file(path) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return Life.ALIVE
    except OSError:
        return Life.UNKNOWN  # the file was removed, or is in another container
    return Life.DEAD


def _lock_file(path: str) -> IO[bytes]:
    """Open a run's lock file and nothing else; a path with a link is refused. Raise OSError."""
    if not _LOCK_FILE.fullmatch(path) or os.path.realpath(path) != path:
        raise PermissionError(f"{path} is no lock file of a run")
    file = os.fdopen(
        os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "r+b", buffering=0
    )
    found = os.fstat(file.fileno())
    if not stat.S_ISREG(found.st_mode) or os.geteuid() not in (0, found.st_uid):
        file.close()
        raise PermissionError(f"{path} is no regular file of this user")
    return file


def of_maker(obj: Obj) -> Life:
    """Return the state of the run that made an object, by its annotation."""
    return process(annotations_of(obj).get(PROCESS_ANNOTATION, ""))


def of(objects: Iterable[Obj]) -> Life:
    """Return the state of a run by its objects.

    No clock is compared, since the clocks of the run's machine and this machine need not agree.
    Only a watch can show whether a run of another machine still renews its lease.
    """
    signs = {of_maker(obj) for obj in objects}
    return next((life for life in (Life.ALIVE, Life.DEAD) if life in signs), Life.UNKNOWN)


def holds(lease: Obj, run: str) -> bool:
    """Return whether this run holds a lease. The run's id is a word of the holder's name."""
    holder = str((lease.get("spec") or {}).get("holderIdentity") or "")
    return run in holder.replace("/", " ").replace(",", " ").split()


def _boot() -> str:
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return ""
