# SPDX-License-Identifier: Apache-2.0
"""Known faults of Windows itself that affect the pods' networks, by build and revision. The run
reports them before any verdict; they are no verdicts themselves."""

from collections.abc import Sequence

from conformance.model.facts import NodeFacts

MENDED: dict[int, tuple[int, str]] = {
    26100: (
        6899,
        "overlay networks of pods do not work before the update of October 2025 (rancher#50915)",
    ),
}
"""For each build: its first revision without the fault (26100.6899 is KB5066835), and the fault of
earlier revisions."""


def windows_troubles(nodes: Sequence[NodeFacts]) -> list[str]:
    """Return each known fault of the nodes' Windows builds, with the nodes that have it. Leave out
    nodes whose pods use no overlay."""
    found: dict[str, list[str]] = {}
    for node in nodes:
        build, revision = node.windows_build or (0, 0)
        whole, what = MENDED.get(build, (0, ""))
        if revision < whole and node.plane.value != "l2bridge":
            found.setdefault(what, []).append(f"{node.name} ({node.revision})")
    return [
        f"known defect of Windows on {', '.join(there)}: {what}" for what, there in found.items()
    ]
