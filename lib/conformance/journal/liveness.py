# SPDX-License-Identifier: Apache-2.0
"""Whether a run is still alive: proved, where that is possible, by a lock file that all its
processes hold.

Everything that could outlive a run carries an annotation that says where the lock file is, and
on which machine.
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
"""In the report folder of a run (``run.directory``), or in the folder that a restoring process
makes for it.  No other path is opened, whatever an annotation says: who may annotate objects is
not known."""


class Life(enum.Enum):
    """What is known of a run."""

    ALIVE = "alive"
    DEAD = "dead"
    UNKNOWN = "not known to be dead"


def sign(lock_file: Path) -> str:
    """The annotation's value: this machine since its last start, and the lock file."""
    return f"{_boot()}{_SEPARATOR}{lock_file}"


def process(value: str) -> Life:
    """What the lock file says that an annotation names: a lock that is free was given back by
    every process's death."""
    boot, _, path = value.partition(_SEPARATOR)
    if not boot or boot != _boot():
        return Life.UNKNOWN
    try:
        with _lock_file(path) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return Life.ALIVE
    except OSError:
        return Life.UNKNOWN  # removed, or another container's file
    return Life.DEAD


def _lock_file(path: str) -> IO[bytes]:
    """Open a run's lock file and nothing else.  Raises OSError."""
    if not _LOCK_FILE.fullmatch(path):
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
    """What the annotation of an object says of the run that made it."""
    return process(_annotation(obj))


def of(objects: Iterable[Obj]) -> Life:
    """What is known of a run from what it made.

    No clock is asked: that of a run's machine and this one need not agree.  Whether a run of
    another machine still renews its lease, one has to watch.
    """
    signs = {of_maker(obj) for obj in objects}
    return next((life for life in (Life.ALIVE, Life.DEAD) if life in signs), Life.UNKNOWN)


def holds(lease: Obj, run: str) -> bool:
    """Whether a lease's holder is this run (its id is a word of the holder's name)."""
    holder = str((lease.get("spec") or {}).get("holderIdentity") or "")
    return run in holder.replace("/", " ").replace(",", " ").split()


def _annotation(obj: Obj) -> str:
    return annotations_of(obj).get(PROCESS_ANNOTATION, "")


def _boot() -> str:
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return ""
