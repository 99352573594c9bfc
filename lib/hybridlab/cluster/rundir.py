# SPDX-License-Identifier: Apache-2.0
"""The directory of a running lab with its kubeconfig and control socket, and the test whether the
lab still runs.

There is a directory for each lab below ``$XDG_RUNTIME_DIR/hybridlab`` (or ``/tmp/hybridlab-UID``),
mode 0700, removed when the lab ends. A lab that was killed leaves its directory; the next lab that
starts removes it.
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
"""The maximum number of bytes of a socket's name (Linux, unix(7): 108 with the zero at its end)."""


@dataclass(frozen=True)
class RunDir:
    """A lab's directory. ``lock`` is held as long as the lab lives, so that a reused pid is not
    mistaken for the lab."""

    path: Path
    lock: int

    @property
    def kubeconfig(self) -> Path:
        """Return the default path of the kubeconfig."""
        return self.path / "kubeconfig"

    @property
    def control(self) -> Path:
        return self.path / "control.sock"

    def remove(self) -> None:
        """Remove the directory and release the lock."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self.lock)


def base() -> Path:
    """Return the directory that contains the directories of this user's labs. It is created on
    first use, and refused if another user owns it."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime and os.access(runtime, os.W_OK):
        path = Path(runtime) / "hybridlab"
    else:
        path = Path(tempfile.gettempdir()) / f"hybridlab-{os.getuid()}"
    path.mkdir(mode=0o700, exist_ok=True)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise Stop(
            ENVIRONMENT,
            f"{path} is not a directory that only this user can open (mode 0700); remove it",
        )
    return path


def create() -> RunDir:
    """Create and return the directory of a new lab, and remove the directories of dead labs. Raise
    Stop if the directory cannot be created."""
    parent = base()
    # Two labs may start at once: neither may take the other's unlocked directory for a stale directory.
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
                f"{parent} is too long a path for a socket: set TMPDIR to a shorter path",
            )
        lock = os.open(path / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(
            lock, fcntl.LOCK_EX
        )  # waits for a `hybridlab status` that is just trying the lock
    finally:
        os.close(turn)
    return RunDir(path, lock)


def labs() -> list[tuple[Path, bool]]:
    """Return every lab directory of this user, and whether its lab still runs."""
    return [(path, alive(path)) for path in sorted(base().iterdir()) if path.is_dir()]


def alive(path: Path) -> bool:
    """Return whether the lab that made this directory still runs, which means that its lock is
    held."""
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
