# SPDX-License-Identifier: Apache-2.0
"""Where a running lab keeps its kubeconfig and control socket, and how others find out whether it still runs.

One directory per lab below ``$XDG_RUNTIME_DIR/hybridlab`` (or ``/tmp/hybridlab-UID``), mode 0700, removed when the lab
ends.  A lab that was killed leaves its directory; the next one that starts removes it.
"""

import fcntl
import os
import shutil
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

from hybridlab.cluster.exits import ENVIRONMENT, Stop

LONGEST = 107
"""Bytes of a socket's name (Linux, unix(7): 108 with the zero at its end)."""


@dataclass(frozen=True)
class RunDir:
    """One lab's directory.  ``lock`` is held as long as the lab lives, so that a reused pid fools nobody."""

    path: Path
    lock: int

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig when none was asked for elsewhere."""
        return self.path / "kubeconfig"

    @property
    def control(self) -> Path:
        return self.path / "control.sock"

    def remove(self) -> None:
        """Remove the directory and give up the lock."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self.lock)


def base() -> Path:
    """The directory of all labs of this user; made on first use, refused when somebody else owns it."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime and os.access(runtime, os.W_OK):
        path = Path(runtime) / "hybridlab"
    else:
        path = Path(tempfile.gettempdir()) / f"hybridlab-{os.getuid()}"
    path.mkdir(mode=0o700, exist_ok=True)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise Stop(
            ENVIRONMENT, f"{path} is not a directory of this user alone (mode 0700); remove it"
        )
    return path


def create() -> RunDir:
    """A new lab's directory; those of labs that are gone are removed on the way.  Raises Stop where it has no room."""
    parent = base()
    # Two labs that start at once: neither may take the other's directory, not locked yet, for one left behind.
    turn = os.open(parent / "turn", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(turn, fcntl.LOCK_EX)
        for path, alive in labs():
            if not alive:
                shutil.rmtree(path, ignore_errors=True)
        path = Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=parent))
        if len(os.fsencode(path / "control.sock")) > LONGEST:
            path.rmdir()
            raise Stop(
                ENVIRONMENT,
                f"{parent} has too long a name for a socket in it: set TMPDIR to a shorter one",
            )
        lock = os.open(path / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(
            lock, fcntl.LOCK_EX
        )  # waits for a `hybridlab status` that is just trying the lock
    finally:
        os.close(turn)
    return RunDir(path, lock)


def labs() -> list[tuple[Path, bool]]:
    """Every lab directory of this user and whether its lab still runs."""
    return [(path, alive(path)) for path in sorted(base().iterdir()) if path.is_dir()]


def alive(path: Path) -> bool:
    """Whether the lab that made this directory still runs: its lock is held."""
    try:
        lock = os.open(path / "lock", os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False
