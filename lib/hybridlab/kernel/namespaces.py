# SPDX-License-Identifier: Apache-2.0
"""Namespaces by system call: unshare, setns, mount and prctl through the C library, held only by
descriptors.

Python 3.11 has no ``os.setns``, therefore ctypes. A network namespace belongs to a *thread*; every
function here changes only the calling thread and restores it. No namespace here has a name or a
mount: it exists as long as a descriptor, a socket or a process uses it.
"""

import contextlib
import ctypes
import os
from collections.abc import Callable, Iterator

from hybridlab.kernel.errors import KernelError

CLONE_FS = 0x00000200
CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY = 1
MS_NOSUID = 2
MS_NODEV = 4
MS_NOEXEC = 8
MS_BIND = 4096
MS_REC = 16384
MS_PRIVATE = 1 << 18
MNT_DETACH = 2

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_NR_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mount.argtypes = [
    ctypes.c_char_p,
    ctypes.c_char_p,
    ctypes.c_char_p,
    ctypes.c_ulong,
    ctypes.c_char_p,
]
_libc.umount2.argtypes = [ctypes.c_char_p, ctypes.c_int]

_home: int | None = None


def _checked(what: str, call: Callable[..., int], *args: object) -> None:
    if call(*args) != 0:
        raise KernelError(what, ctypes.get_errno())


def unshare(flags: int, what: str) -> None:
    """Move the calling thread into new namespaces; ``what`` names them in the error."""
    _checked(f"unshare {what}", _libc.unshare, flags)


def setns(fd: int, flags: int = CLONE_NEWNET) -> None:
    """Move the calling thread into the namespace of the descriptor ``fd``; prefer :func:`entered`,
    which returns to the home namespace afterwards."""
    _checked(f"setns to descriptor {fd}", _libc.setns, fd, flags)


def mount(source: str, target: str, kind: str, flags: int = 0, options: str = "") -> None:
    """Call mount(2); an empty ``kind`` or ``options`` is passed as NULL."""
    _checked(
        f"mount {kind or source} on {target}",
        _libc.mount,
        source.encode(),
        target.encode(),
        kind.encode() or None,
        flags,
        options.encode() or None,
    )


def umount(target: str, flags: int = MNT_DETACH) -> None:
    """Call umount2(2), lazy by default."""
    _checked(f"umount {target}", _libc.umount2, target.encode(), flags)


def pivot_root(new_root: str, put_old: str) -> None:
    """Call pivot_root(2) by its number, since the C library has no function for it."""
    number = _NR_PIVOT_ROOT.get(os.uname().machine)
    if number is None:
        raise KernelError(
            f"pivot_root on a {os.uname().machine} machine, whose call number is unknown here", 38
        )
    _checked(
        f"pivot_root to {new_root}", _libc.syscall, number, new_root.encode(), put_old.encode()
    )


def sethostname(name: str) -> None:
    """Set the host name of the calling thread's UTS namespace."""
    encoded = name.encode()
    _checked(f"sethostname {name}", _libc.sethostname, encoded, len(encoded))


def die_with_parent(signal_number: int) -> None:
    """Ask the kernel for a signal when the parent *thread* ends.

    Call it after any change of credentials, which clears the request.
    """
    _checked("prctl PR_SET_PDEATHSIG", _libc.prctl, _PR_SET_PDEATHSIG, signal_number, 0, 0, 0)


def set_process_name(name: str) -> None:
    """Set the name that ps and top show, at most 15 bytes."""
    _checked("prctl PR_SET_NAME", _libc.prctl, _PR_SET_NAME, name.encode()[:15], 0, 0, 0)


def current_netns() -> int:
    """Return a new descriptor of the calling thread's network namespace (``/proc/self`` would be
    the main thread's)."""
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def home_netns() -> int:
    """Return the process's home: the namespace of the first caller, in which every thread must
    start."""
    global _home  # noqa: PLW0603 - one home per process is the point
    if _home is None:
        _home = current_netns()
    return _home


def new_netns() -> int:
    """Create a network namespace and return its descriptor; the calling thread is then in its home
    namespace again."""
    home = home_netns()
    unshare(CLONE_NEWNET, "network namespace")
    try:
        return current_netns()
    finally:
        setns(home)


@contextlib.contextmanager
def entered(netns: int) -> Iterator[None]:
    """Enter a network namespace for the duration of the block; afterwards, also after an error, the
    thread is in its home namespace again.

    Both changes take 3 us. Never ``await`` inside: the thread's other coroutines would run in the
    namespace, too.
    """
    home = home_netns()
    setns(netns)
    try:
        yield
    finally:
        setns(home)
