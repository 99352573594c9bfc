# SPDX-License-Identifier: Apache-2.0
"""The measurements of a calibration, and their file."""

from __future__ import annotations

import datetime
import json
import threading
from collections.abc import Iterable
from operator import itemgetter
from pathlib import Path
from typing import Any

from conformance.calibrate.stand_ins import StandIns
from conformance.errors import UsageProblem
from conformance.model.endpoint import Workload
from conformance.model.facts import NodeFacts
from conformance.printing import within
from conformance.settings.assumptions import KIND, SCHEMA, Plain, calibration

CUT = "\n(cut: the file may have at most 1 MB)"


class Record:
    """The measurements of a calibration, and the measurements that could not be made.
    Thread-safe."""

    def __init__(self) -> None:
        self.measurements: dict[tuple[str, str], dict[str, Any]] = {}
        self.not_measured: list[dict[str, str]] = []
        self.programs: list[dict[str, str]] = []
        """The output of host programs: node, program and output, or the error if there is no
        output.
        """
        self._lock = threading.Lock()

    def add(self, name: str, pod: Workload, unit: str, *values: float | str) -> None:
        """Add values from a pod's node to earlier values of the same name. ``unit``: ``s``,
        ``bytes``, ``1/s``, or empty for words."""
        new = {"id": name, "node": pod.node, "system": pod.os, "unit": unit, "values": []}
        with self._lock:
            kept = self.measurements.setdefault((name, pod.node), new)["values"]
            kept.extend(value if isinstance(value, str) else round(value, 3) for value in values)

    def lack(self, name: str, why: str, node: str = "") -> None:
        """Record that a measurement could not be made, and why."""
        self.not_measured.append({"id": name, "node": node, "why": why})

    def document(
        self, head: Plain, nodes: Iterable[NodeFacts], private: Iterable[str]
    ) -> dict[str, Any]:
        """Return the content of a calibration.json without its assumptions. It has no secrets, and
        has stand-ins in place of names and addresses.

        ``private``: names to replace in addition to those of the nodes.
        """
        numbered = list(enumerate(nodes, start=1))
        names = {name: f"name-{number}" for number, name in enumerate(private, start=1)}
        names |= {node.name: f"{node.os}-node-{number}" for number, node in numbered}
        hide = StandIns(names)
        described = [
            {
                "name": names[node.name],
                "os": node.os,
                "build": node.revision,
                "image": node.os_image,
                "kernel": node.kernel_version,
                "runtime": node.container_runtime,
            }
            for _, node in numbered
        ]
        measured = [
            {**one, "node": names[one["node"]], "values": within(one["values"], hide)}
            for _, one in sorted(self.measurements.items())
        ]
        return {
            "kind": KIND,
            "schema": SCHEMA,
            "at": f"{datetime.datetime.now(datetime.UTC):%Y-%m-%dT%H:%M:%SZ}",
            **head,
            "nodes": described,
            "measurements": measured,
            "not_measured": within(self.not_measured, hide),
            "programs": within(sorted(self.programs, key=itemgetter("node", "program")), hide),
        }


def write(plain: dict[str, Any], target: Path) -> None:
    """Write a calibration of at most 1 MB; the output of host programs is cut until it fits. Raise
    OSError."""
    for limit in (80_000, 40_000, 20_000, 10_000, 5_000, 1_000):  # characters of each output
        for one in (one for one in plain["programs"] if len(one["output"]) > limit + len(CUT)):
            one["output"] = one["output"][:limit] + CUT
        text = json.dumps(plain, indent=1) + "\n"
        if len(text) <= 1_000_000:
            break
    target.write_text(text, encoding="ascii")


def read(source: Path) -> Plain:
    """Return the content of a calibration.json.  Raise UsageProblem, OSError."""
    if (found := calibration(source.read_text(encoding="utf-8"), str(source))) is None:
        raise UsageProblem(
            f"{source} is not a calibration (`calico-conformance calibrate` writes calibrations)"
        )
    return found
