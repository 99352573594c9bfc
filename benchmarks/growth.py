# SPDX-License-Identifier: Apache-2.0
"""The cost of labs with more and more nodes, and of planning a run on them: ``python -m
benchmarks.growth``.

Prints the table of docs/performance.md: seconds and CPU time until a lab is ready, its memory, and
the CPU time of ``--plan``.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.machine import describe

SIZES = (6, 20, 50, 100)
"""The numbers of nodes. A fifth of the nodes run Windows, at least one node for each build."""
ROOT = Path(__file__).parents[1]
TICKS = os.sysconf("SC_CLK_TCK")


def family(pid: int) -> list[int]:
    """Return the pids of a process and all of its descendants."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # the process has ended
            continue
        parents[int(folder.name)] = int(fields[1])
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found


def cpu(pids: Sequence[int]) -> float:
    """Return the CPU seconds of processes."""
    total = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / TICKS


def memory(pids: Sequence[int]) -> int:
    """Return the MB (PSS) of processes."""
    text = [Path(f"/proc/{pid}/smaps_rollup").read_text() for pid in pids]
    return sum(int(each.partition("Pss:")[2].split()[0]) for each in text) // 1024


def measure(nodes: int, folder: Path) -> str:
    """Start a lab with this number of nodes, plan a run on it, and return the row of the table."""
    kubeconfig = folder / f"{nodes}"
    each = max(1, nodes // 10)
    counts = {"linux": nodes - 1 - 2 * each, "windows-2022": each, "windows-2019": each}
    command = [sys.executable, "-m", "hybridlab", "up", "--kubeconfig", str(kubeconfig)]
    for system, count in counts.items():
        command += ["--set", f"nodes.{system}.count={count}"]
    begun = time.monotonic()
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as lab:
        try:
            assert lab.stdout is not None
            ready = lab.stdout.readline()
            seconds = time.monotonic() - begun
            if "ready" not in ready:
                raise RuntimeError(f"no lab of {nodes} nodes: {ready}")
            pids = family(lab.pid)
            used, megabytes = cpu(pids), memory(pids)
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            plan = [sys.executable, "-m", "pytest", "--plan", f"--kubeconfig={kubeconfig}", "-q"]
            subprocess.run(plan, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
        finally:
            lab.terminate()
    planned = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return f"| {nodes} | {seconds:.1f} | {used:.2f} | {megabytes} | {planned:.1f} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", type=int, nargs="*", default=SIZES)
    given = parser.parse_args()
    print(describe(), f"load {os.getloadavg()[0]:.1f}")
    print("| nodes | ready s | CPU s until ready | MB (PSS) | `--plan` CPU s |")
    print("| --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        for nodes in given.sizes:
            print(measure(nodes, Path(folder)), flush=True)


if __name__ == "__main__":
    main()
