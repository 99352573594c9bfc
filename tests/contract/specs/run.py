# SPDX-License-Identifier: Apache-2.0
"""Kubernetes' policy specs on a lab, as a table: ``python -m tests.contract.specs.run``.

Exit codes: 0: every spec passed, skipped itself, or failed because of a documented limit; 1: a spec
failed for another reason or did not end; 7: the program with the specs could not be built.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.contract.clients.table import lab

HERE = Path(__file__).parent
LIMIT = 1200
"""The maximum seconds of one spec; a spec that fails has waited for each of its paths twice."""

SYSTEMS = {"linux": ("debian", "default"), "windows": ("windows", "untainted")}
"""Map the operating system of pods to its name for the specs (``--node-os-distro``) and to the
lab's profile.

The specs' pods have no tolerations, and only those for Windows have a node selector. Without the
taints of the default profile, "Linux" pods would be scheduled to Windows nodes, too.
"""

DOCUMENTED = {
    "windows": {
        "named port": "Felix skips rules with named ports on Windows (XPOL-4)",
        "except clause": "Felix skips rules with a negated match on Windows (XPOL-1)",
        "IPBlock.Except": "Felix skips rules with a negated match on Windows (XPOL-1)",
    }
}
"""Words in the names of specs that fail on a real cluster, too, with the reason: some paths stay
closed."""

LEAK = "Expected blocked pod connection was instead ALLOWED"
"""The specs' message about a path that is open against their policy; no documented limit explains
it."""


@dataclass(frozen=True)
class Outcome:
    """The result of one spec."""

    name: str
    state: str
    message: str = ""
    has_leak: bool = False

    def limit(self, system: str) -> str:
        """Return the documented limit that explains a failure; empty for none."""
        reasons = {} if self.has_leak else DOCUMENTED.get(system, {})
        return next((why for word, why in reasons.items() if word in self.name), "")


@dataclass(frozen=True)
class Program:
    """The built specs, for a cluster and the nodes of one operating system."""

    binary: Path
    kubeconfig: Path
    system: str

    def names(self, focus: str) -> list[str]:
        """Return the names of the specs that ``focus``, a regular expression, selects."""
        chosen = self._reports(focus, "--ginkgo.dry-run")
        return [_name(spec) for spec in chosen if spec["State"] == "passed"]

    def run(self, name: str) -> Outcome:
        """Run one spec."""
        for spec in self._reports(f"{re.escape(name)}$"):
            if _name(spec) == name:
                message = " ".join((spec.get("Failure") or {}).get("Message", "").split())
                has_leak = LEAK in spec.get("CapturedGinkgoWriterOutput", "")
                return Outcome(name, spec["State"], message, has_leak)
        return Outcome(name, "no report")

    def _reports(self, focus: str, *options: str) -> list[dict[str, Any]]:
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "report.json"
            command = [
                str(self.binary),
                f"--kubeconfig={self.kubeconfig}",
                "--provider=skeleton",
                f"--node-os-distro={SYSTEMS[self.system][0]}",
                f"--ginkgo.focus={focus}",
                "--ginkgo.skip=SCTP",
                f"--ginkgo.timeout={LIMIT}s",
                f"--ginkgo.json-report={report}",
            ]
            subprocess.run([*command, *options], cwd=folder, capture_output=True, check=False)
            reports = json.loads(report.read_text())[0]["SpecReports"] if report.exists() else []
        return [spec for spec in reports if spec["LeafNodeType"] == "It"]


def _name(spec: dict[str, Any]) -> str:
    return " ".join([*(spec["ContainerHierarchyTexts"] or ()), spec["LeafNodeText"]])


def build(folder: Path) -> Path:
    """Build the specs with Go, from the modules that go.sum pins; return the program."""
    binary = folder / "specs.test"
    options = ["-mod=readonly", "-trimpath", "-vet=off", "-o", str(binary)]
    subprocess.run([os.environ.get("GO", "go"), "test", "-c", *options, "."], cwd=HERE, check=True)
    return binary


def table(system: str, outcomes: list[Outcome]) -> str:
    """Return the results of the specs of one operating system as a table for a terminal or a
    page."""
    counts = Counter(outcome.state for outcome in outcomes)
    listed = ", ".join(f"{count} {state}" for state, count in counts.most_common())
    lines = [f"{system}: {len(outcomes)} specs: {listed}"]
    for outcome in outcomes:
        if outcome.state not in {"passed", "skipped"}:
            why = outcome.limit(system) or outcome.message[:300]
            lines.append(f"  {outcome.state}: {outcome.name.partition(' should ')[2]}: {why}")
    return "\n".join(lines)


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Run Kubernetes' policy specs on a lab.")
    parser.add_argument("--system", action="append", choices=SYSTEMS, help="default: both")
    parser.add_argument("--focus", default="Netpol", help="regular expression for names of specs")
    parser.add_argument("--at-once", type=int, default=3, help="specs that run at once")
    given = parser.parse_args(words)
    unexplained = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            binary = build(folder)
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"cannot build the specs: {error}", file=sys.stderr)
            return 7
        for system in given.system or SYSTEMS:
            profile = SYSTEMS[system][1]
            with lab(folder, profile) as kubeconfig, ThreadPoolExecutor(given.at_once) as pool:
                program = Program(binary, kubeconfig, system)
                outcomes = list(pool.map(program.run, program.names(given.focus)))
                failed = [each for each in outcomes if each.state not in {"passed", "skipped"}]
                unexplained += sum(not each.limit(system) for each in failed)
                print(table(system, outcomes), flush=True)
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
