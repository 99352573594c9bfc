# SPDX-License-Identifier: Apache-2.0
"""Runs the suite, as a process, on a lab that a row describes, and reports where its verdicts
differ from the row."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from conformance.catalog import Modality, catalog
from hybridlab.cluster import control, kubeconfig
from hybridlab.cluster.exits import Stop
from tests.detection import lab_api
from tests.detection.table import OUTSIDE, RED, Row, Table, kinds_of

ROOT = Path(__file__).parents[2]
TIMINGS = Path(__file__).with_name("timings.yaml")
REAL_STARTS = {
    "agent_hello": "60 s",
    "agent_slot": "3 min",
    "agent_silence": "45 s",
    "exec_overhead": "20 s",
    "pod_ready": "2 min",
}
"""The timings that replace a row's with ``--detection-powershell``: a real PowerShell takes seconds
to start."""
READY_WITHIN = 60.0
"""s. A limit that only a hanging lab exceeds."""
RUN_WITHIN = 1200.0
"""s. A limit that only a hanging run exceeds."""
ASK_WITHIN = 60.0
"""s. The time limit of one command on the lab."""


def _environment() -> dict[str, str]:
    """Return this process's environment without the variables of the pytest that runs it."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTEST_", "COV_"))
    }
    return {**kept, "PYTHONPATH": str(ROOT / "lib")}


@dataclass
class Lab:
    """A running lab."""

    kubeconfig: Path

    def hybridlab(self, *arguments: str) -> str:
        """Run ``hybridlab faults ...`` on this lab and return its output. Raise RuntimeError."""
        command = [
            sys.executable,
            "-m",
            "hybridlab",
            "faults",
            "--kubeconfig",
            str(self.kubeconfig),
            *arguments,
        ]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=ASK_WITHIN,
            check=False,
            env=_environment(),
        )
        if done.returncode:
            raise RuntimeError(
                f"hybridlab faults {' '.join(arguments)}: {done.stdout}{done.stderr}"
            )
        return done.stdout.strip()

    @contextmanager
    def faults(self, faults: tuple[str, ...]) -> Iterator[None]:
        """Inject these faults for the length of the block; afterwards no fault is active."""
        try:
            for fault in faults:
                self.hybridlab("inject", *fault.split())
            yield
        finally:
            if faults:
                self.hybridlab("heal")


@contextmanager
def lab(
    folder: Path, overrides: tuple[str, ...], tap: str, *, profile: str, powershell: str = ""
) -> Iterator[Lab]:
    """Start a lab, with a tap if a name is given, and end it after the block.

    ``powershell``: the pwsh that runs the probe programs of Windows pods; empty: the stand-in.
    """
    path = folder / "kubeconfig"
    reading, writing = os.pipe()
    start = [str(Path(__file__).with_name("tapped_lab.py")), tap]
    options = [word for override in overrides for word in ("--set", override)]
    options += [f"--powershell={powershell}"] if powershell else []
    log = folder / "lab.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, *start, "up", "--kubeconfig", str(path), "--ready-fd", str(writing),
             "--profile", profile, *options],
            pass_fds=(writing,), stdout=out, stderr=subprocess.STDOUT, env=_environment(), start_new_session=True,
        )  # fmt: skip
    os.close(writing)
    try:
        ready, _, _ = select.select([reading], [], [], READY_WITHIN)
        if not ready or not os.read(reading, 4096):
            raise RuntimeError(
                f"the lab {profile} {overrides} {tap} did not start: {log.read_text(errors='replace')}"
            )
        yield Lab(path)
    finally:
        os.close(reading)
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@dataclass(frozen=True)
class Outcome:
    """The result of a run."""

    report: dict[str, Any]
    exit_code: int
    output: str
    seconds: float

    @property
    def verdicts(self) -> dict[str, str]:
        """Map the selected claims that have a test to their verdicts."""
        return {
            claim["id"]: claim["verdict"]
            for claim in self.report["claims"]
            if claim["verdict"] and claim["results"]
        }

    @property
    def builds(self) -> dict[str, str]:
        """Map each Windows node to its build in the form of decisions: ``20348``."""
        nodes = self.report["facts"]["nodes"]
        return {
            node["name"]: str(node["windows_build"][0]) for node in nodes if node["windows_build"]
        }

    def claim(self, claim: str) -> dict[str, Any]:
        """Return the report's entry of a claim."""
        found: dict[str, Any] = next(item for item in self.report["claims"] if item["id"] == claim)
        return found

    def first_lines(self, claim: str) -> list[str]:
        """Return the first lines of the reasons of a claim's results that are not CONFIRMED, and of
        the claim itself.

        If a first line names the problem and its place, the line of the path below it, with the
        observation, is included as well.
        """
        found = self.claim(claim)
        results = [result for result in found["results"] if result["verdict"] != "CONFIRMED"]
        reasons = [found["reason"], *(result["reason"] for result in results)]
        tests = {result["test"] for result in results}
        told = [
            test["explanation"]
            for test in self.report["tests"]
            if test["test"] in tests and test["explanation"]
        ]
        paths = [
            f"{', '.join(one['claims'])}  {one['prefix']}{one['path']}  expected {one['expected']}, observed "
            f"{one['observed']} ({one['tries']} tries, {one['seconds']} s): {one['so']}"
            for one in told
        ]
        return list(dict.fromkeys(text.partition("\n")[0] for text in [*reasons, *paths]))

    @property
    def conclusions(self) -> list[str]:
        """Return the conclusions about the failed layer."""
        told = [test["explanation"] for test in self.report["tests"] if test["explanation"]]
        return [each["lines"]["layer"] for each in told if "layer" in each["lines"]]

    def red_pairs(self, claim: str) -> set[tuple[str, str]]:
        """Return the pairs of nodes between which a claim was violated; a name is empty if that end
        is no pod."""
        found = next(item for item in self.report["claims"] if item["id"] == claim)
        decisions = [each for result in found["results"] for each in result["decisions"]]
        return {
            (decision["source"], decision["target"])
            for decision in decisions
            if decision["verdict"] in RED
        }

    def measured(self, claim: str, name: str) -> list[float]:
        """Return the figures that a claim's results stored under a name."""
        found = self.claim(claim)
        return [
            float(result["measured"][name])
            for result in found["results"]
            if name in (result.get("measured") or {})
        ]


def run(  # noqa: PLR0917
    where: Lab,
    folder: Path,
    claims: tuple[str, ...],
    workers: int,
    timings: dict[str, str],
    external_target: str = OUTSIDE,
    only: str = "",
    *,
    watch: bool = True,
    options: tuple[str, ...] = (),
) -> Outcome:
    """Run ``pytest --kubeconfig=...`` on a lab."""
    reports = folder / "reports"
    patience = folder / "timings.yaml"
    plain = yaml.safe_load(TIMINGS.read_text(encoding="utf-8"))
    plain = {section: dict(entries) for section, entries in plain.items()}
    for section in ("linux", "windows"):
        plain[section].update(timings)
    patience.write_text(yaml.safe_dump(plain), encoding="utf-8")
    command = [
        sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "-n", str(workers),
        f"--kubeconfig={where.kubeconfig}", "--allow-cluster-disruptive",
        *([f"--external-target={external_target}"] if external_target else []),
        f"--timings={patience}", f"--report-dir={reports}", *(f"--claim={claim}" for claim in claims),
        *(["-k", only] if only else []), *([] if watch else ["--no-watch"]), *options,
    ]  # fmt: skip
    begun = time.monotonic()
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=RUN_WITHIN, check=False, env=_environment(),
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    seconds = time.monotonic() - begun
    found = reports / "latest" / "conformance.json"
    if not found.exists():
        raise RuntimeError(
            f"the run ended with {done.returncode} and left no report:\n{done.stdout}{done.stderr}"
        )
    return Outcome(
        json.loads(found.read_text(encoding="utf-8")),
        done.returncode,
        done.stdout + done.stderr,
        seconds,
    )


def differences(row: Row, table: Table, outcome: Outcome, *, as_written: bool = True) -> list[str]:
    """Return lines ``claim: expected | observed``, with the observed first line, for all
    differences from the row.

    ``as_written``: exactly the claims of the row ran, so that its exit code applies as well.
    Otherwise tests of its claims may decide other claims, which the row does not mention.
    """
    wanted = {claim for claim in table.clean if not row.claims or claim in row.claims}
    seen = outcome.verdicts
    lines = []
    for claim in sorted(wanted | set(seen if as_written else ())):
        allowed = (
            row.allowed(claim, table.healthy(claim, row.profile))
            if claim in wanted
            else ("not run",)
        )
        got = seen.get(claim, "not run")
        if got not in allowed:
            lines.append(f"{claim:8} expected {' or '.join(allowed):24} | observed {got}")
            lines += (
                [f"           {line}" for line in outcome.first_lines(claim)[:4]]
                if claim in seen
                else []
            )
    for claim, pattern in row.says.items():
        said = outcome.first_lines(claim)
        if not any(re.search(pattern, line) for line in said):
            lines += [f"{claim:8} expected to say {pattern!r} | observed"] + [
                f"           {line}" for line in said[:4]
            ]
    for claim, nodes in row.red_on.items():
        pairs = outcome.red_pairs(claim)
        silent = [node for node in nodes if not any(node in pair for pair in pairs)]
        lines += [
            f"{claim:8} expected to be red on {node} | observed {sorted(pairs)}" for node in silent
        ]
        lines += [
            f"{claim:8} is red on {pair}, which is sound"
            for pair in sorted(pairs)
            if not set(nodes) & set(pair)
        ]
    for claim, rule in row.records.items():
        name, _, least = rule.partition(" >= ")
        figures = outcome.measured(claim, name)
        if not figures or max(figures) < float(least):
            lines.append(f"{claim:8} expected to record {rule} | observed {figures}")
    for claim, patterns in row.known.items():
        told = [issue["text"] for issue in outcome.claim(claim)["known_issues"]]
        wanted_issues = patterns.split(" & ") if patterns else []
        if len(told) != len(wanted_issues) or not all(map(re.search, wanted_issues, told)):
            lines.append(f"{claim:8} expected to be explained by {patterns!r} | observed {told}")
    lines += conclusion_lines(row, outcome.conclusions) if row.concludes else []
    lines += _of_one_node(row, outcome) if row.node else []
    if as_written and outcome.exit_code != row.exit:
        lines.append(f"exit code expected {row.exit} | observed {outcome.exit_code}")
    return lines


def conclusion_lines(row: Row, conclusions: list[str]) -> list[str]:
    """Return lines for kinds of conclusions that no failure led to, and for wrong conclusions."""
    by_kind = {text: kinds_of(text) for text in conclusions}
    named = {kind for kinds in by_kind.values() for kind in kinds}
    expected = {kind for kinds in row.concludes for kind in kinds.split(" or ")}
    missing = [
        f"expected to conclude {kinds} | observed {conclusions or 'no conclusion'}"
        for kinds in row.concludes
        if not named & set(kinds.split(" or "))
    ]
    wrong = [
        f"expected to conclude {' or '.join(row.concludes)} | observed {text}"
        for text, kinds in by_kind.items()
        if not set(kinds) & expected
    ]
    return missing + wrong


def _of_one_node(row: Row, outcome: Outcome) -> list[str]:
    """Return lines for red reasons that do not name the one wrong node, and for builds that differ
    from the row."""
    own = outcome.builds.get(row.node)
    lines = []
    for claim, verdict in (row.expect | row.on_node).items():
        found = outcome.claim(claim)
        reasons = {
            result["reason"].partition("\n")[0]
            for result in found["results"]
            if result["verdict"] in RED
        }
        lines += [
            f"{claim:8} expected to name {row.node} | observed {line}"
            for line in reasons
            if row.node not in line
        ]
        can_happen = catalog()[claim].modality is Modality.CAN_HAPPEN
        sound = ("CONFIRMED", "NOT_OBSERVED") if can_happen else ("CONFIRMED",)
        for build, got in found["builds"].items() if own else ():
            wanted = (verdict,) if build == own else sound
            if got not in wanted:
                lines.append(
                    f"{claim:8} expected {' or '.join(wanted)} on build {build} | observed {got}"
                )
    return lines


@contextmanager
def backends_missing(where: Lab, nodes: tuple[str, ...], api: lab_api.Api) -> Iterator[None]:
    """Inject service-backend-missing at these nodes for each Service of a run, as soon as the
    Service exists."""
    if not nodes:
        yield
        return
    directory = kubeconfig.lab_of(where.kubeconfig)
    if directory is None:
        raise RuntimeError(f"{where.kubeconfig} is no lab's")

    def inject(service: Any) -> None:
        meta = service["metadata"]
        if (
            not meta["namespace"].startswith("calico-demo")
            or service["spec"].get("clusterIP") == "None"
        ):
            return  # not the run's Service, or headless: no node forwards its traffic
        for entry in nodes:
            node, _, ending = entry.partition(" for ")
            if not meta["name"].endswith(ending):
                continue
            parameters = {"service": f"{meta['namespace']}/{meta['name']}", "node": node}
            request = {"op": "inject", "fault": "service-backend-missing", "parameters": parameters}
            try:
                control.ask(directory / "control.sock", request)
            except Stop:
                if lab_api.is_there(
                    api,
                    f"/api/v1/namespaces/{meta['namespace']}/services/{meta['name']}",
                    meta["uid"],
                ):
                    raise
                return  # its test ended first

    try:
        with lab_api.on_each(api, "/api/v1/services", inject):
            yield
    finally:
        where.hybridlab("heal")
