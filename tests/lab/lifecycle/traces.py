# SPDX-License-Identifier: Apache-2.0
"""Everything that a lab could leave on a machine: processes, namespaces, mounts, links."""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

NAMESPACE = re.compile(r"^(net|mnt|user|pid|uts):\[\d+\]$")


def namespaces_of(pid: int) -> set[str]:
    """Return the namespaces that a process is in or holds by descriptor, as ``net:[4026531840]``;
    empty if the process is gone."""
    found: set[str] = set()
    for folder in (f"/proc/{pid}/ns", f"/proc/{pid}/fd"):
        try:
            links = list(Path(folder).iterdir())
        except OSError:
            continue
        for link in links:
            try:
                target = str(link.readlink())
            except OSError:
                continue
            if NAMESPACE.match(target):
                found.add(target)
    return found


@dataclass(frozen=True)
class Traces:
    """The processes of a running lab, and the namespaces that belong only to it."""

    processes: dict[int, str]
    """Map each pid to its role: ``up``, ``waiter``, ``labd`` ..."""
    namespaces: frozenset[str]
    mounts: str
    links: tuple[str, ...]

    def left(self) -> list[str]:
        """Return the traces that are still there, in words; waits a little, because the kernel
        cleans up in the background."""
        deadline = time.monotonic() + 5
        while (found := self._left()) and time.monotonic() < deadline:
            time.sleep(0.05)
        return found

    def _left(self) -> list[str]:
        found = [
            f"process {pid} ({role})"
            for pid, role in self.processes.items()
            if psutil.pid_exists(pid)
        ]
        for pid in psutil.pids():
            # The kernel may give the number of a deleted namespace to a new namespace of another
            # lab. A process of this lab is also in its user namespace, which is checked as well.
            if _user_namespace(pid) in self.namespaces:
                found += [
                    f"{namespace} held by process {pid}"
                    for namespace in namespaces_of(pid) & self.namespaces
                ]
        if _mounts() != self.mounts:
            found.append("mounts changed")
        if _links() != self.links:
            found.append(f"links changed: {_links()} instead of {self.links}")
        return found


def of(pid: int) -> Traces:
    """Return the traces of the lab whose command has this pid: first its own children (waiter,
    labd), then the processes that labd runs."""
    mine = namespaces_of(os.getpid()) | namespaces_of(1)
    processes, namespaces = {pid: "up"}, set(namespaces_of(pid))
    roles = ["waiter", "labd"]
    process = psutil.Process(pid)
    for child in process.children(recursive=True):
        processes[child.pid] = roles.pop(0) if roles else "in the lab"
        namespaces |= namespaces_of(child.pid)
    return Traces(processes, frozenset(namespaces - mine), _mounts(), _links())


def _user_namespace(pid: int) -> str:
    try:
        return str(Path(f"/proc/{pid}/ns/user").readlink())
    except OSError:
        return ""


def _mounts() -> str:
    return Path("/proc/self/mountinfo").read_text()


def _links() -> tuple[str, ...]:
    return tuple(sorted(entry.name for entry in Path("/sys/class/net").iterdir()))
