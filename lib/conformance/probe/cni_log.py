# SPDX-License-Identifier: Apache-2.0
"""The log of Calico's CNI plugin, a file on its node, read through the node's calico-node pod.

On Linux, that pod mounts the file's folder (volume ``cni-log-dir``). On Windows, the pod is a
HostProcess pod, which can read the host's files. The times in the lines are the node's local time
without a zone. On Windows the host reports the zone. On Linux the zone follows from the last line,
which is as old as the file.
"""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from conformance.errors import ProbeBroken
from conformance.kube import execute
from conformance.kube.channels import ExecBroken
from conformance.kube.client import Kube, Obj
from conformance.model.endpoint import OS
from conformance.probe.host import POWERSHELL, quoted
from conformance.probe.windows_host import one_line

CONFIGURATIONS: dict[OS, tuple[tuple[str, str], ...]] = {
    "linux": (("calico-system", "cni-config"), ("kube-system", "calico-config")),
    "windows": (("calico-system", "cni-config-windows"),),
}
"""ConfigMaps with the CNI configuration that the operator and the manifests have installed."""
PATH = "/var/log/calico/cni/cni.log"
"""The operator's ``log_file_path`` on both systems (pkg/render/node.go, pkg/render/windows.go)."""
NAMED = re.compile(r'\\"log_file_path\\": *\\"((?:[A-Za-z]:)?/[\w./ -]+\.log)\\"')
"""Matches the field in a configuration that is a text within JSON. It must name a ``.log`` file, so
that no other file of a node is opened."""
BYTES = 256 * 1024
"""The number of bytes at the file's end that are read on Linux."""
LINUX = 'stat -c %Y -- "$1" && tail -c "$2" -- "$1"'
WINDOWS = one_line("cni_log.ps1")
ON_WINDOWS = r"'C:\var\log\calico\cni\cni.log'"
"""The path as the program for Windows contains it."""
STAMP = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?=\.)")
FORBIDDEN = re.compile(r" was refused: 403\b")
NO_RIGHT = "no right to run commands in Calico's pods"
ZONES = timedelta(minutes=15)
"""The offset of every time zone from UTC is a multiple of this duration."""


def read(  # noqa: PLR0917 - as the last look calls it
    kube: Kube, pod: Obj, container: str, os: OS, since: datetime, within: float
) -> str:
    """Return the lines of the file that were written from ``since`` on; on Windows only errors.

    Raise SuiteError if the file cannot be read.
    """
    where = (pod["metadata"]["namespace"], pod["metadata"]["name"], container)
    try:
        done = execute.run(kube, *where, command(os, path(kube, os)), within=within)
    except ExecBroken as broken:
        refused = FORBIDDEN.search(str(broken))
        raise ProbeBroken(NO_RIGHT if refused else broken.transport) from broken
    text = done.stdout.decode("utf-8-sig", errors="replace")
    first, _, rest = text.replace("\r\n", "\n").partition("\n")
    if done.exit_code or not re.fullmatch(r"-?\d+", first.strip()):
        raise ProbeBroken(
            (done.stderr.decode(errors="replace") or done.output).strip() or "no output"
        )
    lines = rest.splitlines()
    zone = timedelta(minutes=int(first)) if os == "windows" else _zone(lines, int(first))
    return "\n".join(_written(lines, since + zone))


def path(kube: Kube, os: OS) -> str:
    """Return the path of the file on nodes, from the CNI configuration.  Raise SuiteError."""
    for namespace, name in CONFIGURATIONS[os]:
        found = kube.find("v1", "ConfigMap", name, namespace) or {}
        if named := NAMED.search(json.dumps(found.get("data") or {})):
            return named[1]
    return PATH


def command(os: OS, file: str) -> tuple[str, ...]:
    """Return the command that prints a number, and then the file's end. The number is the file's
    time on Linux, and the offset of the host's time zone on Windows."""
    if os == "linux":
        return ("sh", "-c", LINUX, "sh", file, str(BYTES))
    on_drive = (file if file[1:2] == ":" else f"C:{file}").replace("/", "\\")
    return (*POWERSHELL, WINDOWS.replace(ON_WINDOWS, quoted(on_drive)))


def _stamp(line: str) -> datetime | None:
    found = STAMP.match(line)
    return datetime.fromisoformat(found[0]).replace(tzinfo=UTC) if found else None


def _zone(lines: list[str], changed: int) -> timedelta:
    """Return the offset of the lines' times from UTC. It follows from the last line, which is as
    old as the file."""
    last = next((stamp for line in reversed(lines) if (stamp := _stamp(line))), None)
    ahead = last - datetime.fromtimestamp(changed, UTC) if last else timedelta()
    return round(ahead / ZONES) * ZONES


def _written(lines: list[str], since: datetime) -> Iterator[str]:
    """Yield the lines that were written from ``since`` on. A line without a time belongs to the
    line before it."""
    is_new = False
    for line in lines:
        if stamp := _stamp(line):
            is_new = stamp >= since.replace(microsecond=0)
        if is_new:
            yield line
