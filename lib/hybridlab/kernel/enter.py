# SPDX-License-Identifier: Apache-2.0
"""The entry of a process into the lab: it gets namespaces of its own, and ends with its parent.

These are user, network, mount, pid, IPC and UTS namespaces. Root and all other users get them in
the same way: the caller's own uid becomes root inside. The calling process becomes the *waiter*,
which waits for pid 1 and does nothing else; its child is pid 1 inside. The calling process must be
single-threaded. If the entry fails, ``kernel.preflight`` reports what is missing and what to allow.
"""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from hybridlab.kernel import namespaces
from hybridlab.kernel.namespaces import (
    CLONE_NEWIPC,
    CLONE_NEWNET,
    CLONE_NEWNS,
    CLONE_NEWPID,
    CLONE_NEWUSER,
    CLONE_NEWUTS,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_PRIVATE,
    MS_REC,
)


def enter_user_namespace() -> None:
    """Become root of a new user namespace in which only the caller's own uid and gid exist."""
    uid = os.geteuid()
    gid = os.getegid()
    namespaces.unshare(CLONE_NEWUSER, "user namespace")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
    Path("/proc/self/gid_map").write_text(f"0 {gid} 1")


def enter_other_namespaces() -> None:
    """Enter new network, mount, IPC and UTS namespaces, and a new pid namespace for children."""
    flags = CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS
    namespaces.unshare(flags, "network, mount, pid, IPC and UTS namespaces")
    namespaces.mount("none", "/", "", MS_REC | MS_PRIVATE)


def become_waiter(inside: Callable[[], int], name: str) -> NoReturn:
    """Fork pid 1, which runs ``inside`` and exits with its result; wait for it and exit with the
    same result.

    Call this after the namespaces are entered. If one of these two processes dies, the other
    ends too: the kernel kills pid 1 when the waiter ends, and with pid 1 everything in its pid
    namespace. The parent notices the end of pid 1 by the end-of-file on any socket that pid 1 held,
    because the waiter closes all its descriptors.
    """
    child = os.fork()
    if child == 0:
        namespaces.die_with_parent(signal.SIGKILL)
        namespaces.set_process_name(name)
        os._exit(inside())
    namespaces.set_process_name(f"{name}-waiter")
    os.closerange(0, os.sysconf("SC_OPEN_MAX"))
    _, status = os.waitpid(child, 0)
    os._exit(abs(os.waitstatus_to_exitcode(status)))


def mount_own_proc() -> None:
    """Mount the /proc of the new pid namespace over the old /proc, so that the lab's processes find
    only each other."""
    namespaces.mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
