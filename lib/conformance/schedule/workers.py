# SPDX-License-Identifier: Apache-2.0
"""The number of workers that a cluster can carry, by the cost of each worker on each covered node
(``-n auto``).

A node is limited by the kubelet's max-pods, EKS' addresses of the VPC, the single IPAM block of a
Windows node (of which four addresses are reserved) and memory. A limit that cannot be read is
ignored.
"""

from collections.abc import Mapping, Sequence

from conformance.facts.room import Room
from conformance.model.counted import counted
from conformance.pods.coverage import Covered
from conformance.settings import Workers


def workers_for(
    bounds: Workers,
    coverage: Sequence[Covered],
    room: Mapping[str, Room],
    busy: str = "",
    *,
    files: int | None = None,
    prepared: int = 0,
) -> tuple[int, str]:
    """Return how many workers ``-n auto`` starts, and why, in one line.

    Each worker has pods on every covered node, so the node with the least room decides. ``busy``:
    the load of the machine that the run shares with its lab, where many workers would only slow the
    lab down; empty: the machine is idle. ``files``: how many files that lab's processes may have
    open; None: the run has no lab. ``prepared``: the number of workers for which the cluster's
    owner has prepared namespaces; 0: the run makes its own.
    """
    windows = [covered.node.name for covered in coverage if covered.node.os == "windows"]
    each = bounds.agents_per_node * len(coverage)
    allowed = {"this is the maximum of -n auto": bounds.at_most}
    if prepared:
        allowed["no more namespaces are prepared"] = prepared
    if busy:
        allowed[f"the machine, which the lab shares, is busy ({busy})"] = bounds.on_busy
    if files is not None:
        allowed[f"the lab may open {files:,} files (ulimit -Hn), {bounds.files} per worker"] = (
            max(0, files - bounds.lab_files) // bounds.files
        )
    if windows:
        starts = counted(bounds.per_windows_node, "PowerShell")
        allowed[f"a Windows node can start {starts} at once"] = bounds.per_windows_node
    if each:
        agents = max(0, bounds.agents - bounds.watch * len(coverage))
        allowed[f"{counted(agents, 'agent')} may run, {each} per worker"] = agents // each
    for name in windows:
        left = room.get(name)
        if left is None:
            continue
        free = max(0, left.addresses - bounds.watch)
        addresses = counted(free, "free address", "free addresses")
        allowed[f"{name} has {addresses}, {bounds.addresses} per worker"] = free // bounds.addresses
        if left.memory is not None:
            memory = max(0, left.memory - bounds.watch * bounds.memory // bounds.addresses)
            allowed[f"{name} has {memory} MiB free, {bounds.memory} per worker"] = (
                memory // bounds.memory
            )
    why = min(allowed, key=lambda reason: allowed[reason])
    number = max(bounds.at_least, allowed[why])
    nodes = counted(len(coverage), "node is", "nodes are")
    return number, f"{number}, because {why}; {nodes} tested"


def more_than_auto(bounds: Workers, given: int, number: int, why: str) -> str:
    """Return the consequences for a user who types ``-n GIVEN`` if ``-n auto`` starts only
    ``number`` workers; empty if there are none."""
    if given <= number:
        return ""
    return (
        f"{given}, as given by -n; -n auto would start {why}. Additional workers wait for pods and agents "
        f"(at most {bounds.agents_per_windows_node} live agents on a Windows node): tests that must "
        "observe a change while it happens may be INCONCLUSIVE"
    )
