"""Whether a run is still alive: proved, where that is possible, by a lock file that all its processes hold.

Everything that could outlive a run carries an annotation that says where the lock file is, and on which machine.
"""

import enum
import fcntl
from collections.abc import Iterable
from pathlib import Path

from conformance.kube.client import Obj
from conformance.kube.ownership import PROCESS_ANNOTATION, annotations_of

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_SEPARATOR = ":"


class Life(enum.Enum):
    """What is known of a run."""

    ALIVE = "alive"
    DEAD = "dead"
    UNKNOWN = "not known to be dead"


def sign(lock_file: Path) -> str:
    """The annotation's value: this machine since its last start, and the lock file."""
    return f"{_boot()}{_SEPARATOR}{lock_file}"


def process(value: str) -> Life:
    """What the lock file says that an annotation names: a lock that is free was given back by every process's death."""
    boot, _, path = value.partition(_SEPARATOR)
    if not boot or boot != _boot():
        return Life.UNKNOWN
    try:
        with Path(path).open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return Life.ALIVE
    except OSError:
        return Life.UNKNOWN  # removed, or another container's file
    return Life.DEAD


def of_maker(obj: Obj) -> Life:
    """What the annotation of an object says of the run that made it."""
    return process(_annotation(obj))


def of(objects: Iterable[Obj]) -> Life:
    """What is known of a run from what it made.

    No clock is asked: that of a run's machine and this one need not agree.  Whether a run of another machine still
    renews its lease, one has to watch.
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
