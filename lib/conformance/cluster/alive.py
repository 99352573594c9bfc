"""Is a run still alive?  Proved where it can be, by a lock file that all its processes hold; else judged by its lease.

Everything that could outlive a run carries an annotation that says where the lock file is, and on which machine.
"""

from __future__ import annotations

import datetime
import enum
import fcntl
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from conformance.kube.client import Obj
from conformance.kube.ownership import PROCESS_ANNOTATION

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


def proved_dead(obj: Obj) -> bool:
    """Whether the run that made an object has certainly ended."""
    return process(_annotation(obj)) is Life.DEAD


def of(run: str, objects: Iterable[Obj], leases: Sequence[Obj], now: datetime.datetime) -> Life:
    """What is known of a run from what it made, and from the leases in the cluster.

    A lease that it renews is a sign of life from any machine.  One that it has let expire, or that another run holds,
    is none of death: only runs that disrupt take it.
    """
    signs = {process(value) for one in objects if (value := _annotation(one))}
    if Life.ALIVE in signs or any(holds(one, run) and fresh(one, now) for one in leases):
        return Life.ALIVE if Life.DEAD not in signs else Life.DEAD
    return Life.DEAD if Life.DEAD in signs else Life.UNKNOWN


def holds(lease: Obj, run: str) -> bool:
    """Whether a lease's holder is this run (its id is a word of the holder's name)."""
    holder = str((lease.get("spec") or {}).get("holderIdentity") or "")
    return run in holder.replace("/", " ").replace(",", " ").split()


def fresh(lease: Obj, now: datetime.datetime) -> bool:
    """Whether a lease was renewed in time."""
    spec: Mapping[str, object] = lease.get("spec") or {}
    renewed = spec.get("renewTime")
    if not renewed:
        return False
    at = datetime.datetime.fromisoformat(str(renewed).replace("Z", "+00:00"))
    return (now - at).total_seconds() <= float(str(spec.get("leaseDurationSeconds") or 0))


def _annotation(obj: Obj) -> str:
    return str((obj["metadata"].get("annotations") or {}).get(PROCESS_ANNOTATION) or "")


def _boot() -> str:
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return ""
