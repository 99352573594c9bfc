# SPDX-License-Identifier: Apache-2.0
"""The last check of a run: errors and panics since its beginning, in the logs of Felix, the CNI
plugin, kube-proxy and Typha, on the nodes that the run covers.

The results are notes and never verdicts: software logs errors that nobody notices, and disruptive
tests cause errors in logs. Requests, bytes and seconds are limited. The CNI plugin's log is a file
on each node; a command in the node's calico-node pod reads it.
"""

import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain

from conformance.errors import SuiteError, first_line
from conformance.facts.diagnostics_bundle import CALICO_NAMESPACES
from conformance.kube.client import Kube, Obj
from conformance.kube.fields import list_at, mapping_at, value_at
from conformance.kube.refused import ApiRefused
from conformance.model.by_key import by_key
from conformance.model.counted import counted
from conformance.model.endpoint import OS
from conformance.scrubbing import scrubbed

BAD = re.compile(
    r"\[(?:ERROR|FATAL|PANIC)\]|^[EF]\d{4} \d\d:|^(?:panic|fatal error): "
    r"|\blevel=\"?(?:error|fatal|panic)\b|\"level\": ?\"(?:error|fatal|panic)\""
)
"""Matches lines by Calico (logrus in its own form), klog and Go's runtime, and lines in logfmt or
JSON."""
PANIC = re.compile(
    r"\[(?:FATAL|PANIC)\]|^F\d{4} \d\d:|^(?:panic|fatal error): "
    r"|\blevel=\"?(?:fatal|panic)\b|\"level\": ?\"(?:fatal|panic)\""
)
COMPONENTS = ("calico-node", "calico-typha", "kube-proxy")
"""The beginnings of the names of the pods whose logs are read."""
LOGS = 40
"""Maximum number of logs that are read."""
BYTES = 256 * 1024
"""The number of bytes of each log that are read, from the run's start on."""
SECONDS = 15.0
"""Seconds after which no further log is requested."""
AT_ONCE = 4
WINDOWS = "calico-node-windows"
"""The beginning of the names of Felix' pods on Windows."""
PRINT: dict[OS, str] = {
    "linux": "tail /var/log/calico/cni/cni.log",
    "windows": r"powershell Get-Content -Tail 10 C:\var\log\calico\cni\cni.log",
}
"""Commands that print the CNI plugin's log, for people. If a CNI configuration sets another
``log_file_path``, the reader must change the command."""
CniLog = Callable[[Obj, str, OS, datetime, float], str]
"""A function that returns the CNI plugin's log on the node of a pod of Felix. The arguments are the
pod, its container, the node's operating system, the time since which lines count, and the time
limit in seconds. Raises SuiteError."""
NOTES = 6
"""Maximum number of notes about logs; further notes are only counted."""
SHOWN = 160
"""The number of characters of a line that are shown."""


@dataclass(frozen=True)
class _Log:
    """A container's log, or the CNI plugin's log on a node, since the run began."""

    namespace: str
    pod: str
    container: str
    node: str
    previous: bool = False
    """True if the log belongs to the container's instance before the last restart."""
    felix: Obj | None = None
    """The pod of Felix on the node whose CNI plugin wrote this log; None for the log of a
    container."""

    @property
    def owner(self) -> str:
        """Return the program and node that the log belongs to."""
        if self.felix:
            return f"the CNI plugin's log on {self.node}"
        return f"the log of {self.container} in {self.namespace}/{self.pod} on {self.node}"

    @property
    def command(self) -> str:
        """Return the command that prints the whole log."""
        pod = f"-n {self.namespace} {self.pod} -c {self.container}"
        if self.felix:
            return f"kubectl exec {pod} -- {PRINT[_os(self.felix)]}"
        return f"kubectl logs {pod}{' --previous' if self.previous else ''}"


def last_look(
    kube: Kube, nodes: Collection[str], seconds: float, cni_log: CniLog | None
) -> list[str]:
    """Return a note for each log with errors or panics in the last ``seconds``, panics first, and
    then a note for each log that could not be read. ``cni_log`` is None in a run that executes no
    commands in pods."""
    pods, unread = _pods(kube, nodes)
    since = datetime.now(UTC) - timedelta(seconds=seconds)
    logs = [log for pod in pods for log in _logs(pod, since)]
    end = time.monotonic() + SECONDS
    if cni_log is None:
        unread.append(
            "the CNI plugin's log, a file on each node, was not read: "
            "this run executes no commands in pods"
        )
        logs = [log for log in logs if log.felix is None]

    def read(log: _Log) -> str | SuiteError | None:
        if time.monotonic() > end:
            return None
        try:
            if log.felix and cni_log:
                return cni_log(
                    log.felix,
                    log.container,
                    _os(log.felix),
                    since,
                    max(1.0, end - time.monotonic()),
                )
            return kube.logs(
                log.namespace,
                log.pod,
                log.container,
                since=seconds,
                previous=log.previous,
                head=BYTES,
            )
        except SuiteError as error:
            return error

    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="last-look") as pool:
        texts = list(zip(logs, pool.map(read, logs[:LOGS]), strict=False))
    found = sorted(chain.from_iterable(_found(log, text) for log, text in texts))
    more = [f"errors in {counted(len(found) - NOTES, 'more log')}"] if len(found) > NOTES else []
    refused = by_key((_why(text), log) for log, text in texts if isinstance(text, SuiteError))
    unread += [
        f"{counted(len(several), 'log')} not read: {why}" for why, several in refused.items()
    ]
    left = len(logs) - sum(text is not None for _, text in texts)
    unread += (
        [f"{counted(left, 'log')} not read: the limit is {LOGS} logs and {SECONDS:.0f} s"]
        if left
        else []
    )
    return [
        f"last look at logs: {note}"
        for note in [*(note for _, note in found[:NOTES]), *more, *unread]
    ]


def _pods(kube: Kube, nodes: Collection[str]) -> tuple[list[Obj], list[str]]:
    """Return the pods with logs to read, and a note for each log that cannot be read."""
    found: list[Obj] = []
    unread: list[str] = []
    for namespace in CALICO_NAMESPACES:
        try:
            pods = kube.objects("v1", "Pod", namespace)
        except SuiteError as error:
            unread.append(f"pods of {namespace} cannot be listed: {_why(error)}")
            continue
        found += [
            pod
            for pod in pods
            if pod["metadata"]["name"].startswith(COMPONENTS)
            and value_at(pod, "spec", "nodeName") in nodes
        ]
    with_felix = {
        pod["spec"]["nodeName"]
        for pod in found
        if pod["metadata"]["name"].startswith(COMPONENTS[0])
    }
    if lack := sorted(set(nodes) - with_felix) if not unread else []:
        unread.append(
            f"Felix does not run in a pod on {', '.join(lack)}: "
            "neither its log nor the CNI plugin's log was read there"
        )
    return found, unread


def _logs(pod: Obj, since: datetime) -> Iterator[_Log]:
    """Yield the logs of a pod that may contain lines of this run. Containers that ended before the
    run are left out."""
    meta = pod["metadata"]
    statuses = [
        *list_at(pod, "status", "initContainerStatuses"),
        *list_at(pod, "status", "containerStatuses"),
    ]
    for status in statuses:
        where = (meta["namespace"], meta["name"], str(status.get("name")), pod["spec"]["nodeName"])
        for field, previous in (("state", False), ("lastState", True)):
            ended = str(mapping_at(status, field, "terminated").get("finishedAt") or "")
            if mapping_at(status, field, "running") or ended >= f"{since:%Y-%m-%dT%H:%M:%SZ}":
                yield _Log(*where, previous)
    running = [
        str(status["name"])
        for status in list_at(pod, "status", "containerStatuses")
        if mapping_at(status, "state", "running")
    ]
    if meta["name"].startswith(COMPONENTS[0]) and running:
        yield _Log(meta["namespace"], meta["name"], running[0], pod["spec"]["nodeName"], felix=pod)


def _os(felix: Obj) -> OS:
    return "windows" if felix["metadata"]["name"].startswith(WINDOWS) else "linux"


def _found(log: _Log, text: str | SuiteError | None) -> Iterator[tuple[tuple[int, int], str]]:
    """Yield the note about a log, if the log has errors, with the key by which notes are sorted."""
    lines = text.splitlines() if isinstance(text, str) else ()
    bad = [line for line in lines if BAD.search(line)]
    if not bad:
        return
    counts = Counter("panic" if PANIC.search(line) else "error" for line in bad)
    statement = ", ".join(
        counted(counts[word], word) for word in ("panic", "error") if counts[word]
    )
    shown = scrubbed(next((line for line in bad if PANIC.search(line)), bad[-1]).strip())[:SHOWN]
    yield (
        (-counts["panic"], -counts["error"]),
        f"{statement} since the run began in {log.owner}: {shown}; {log.command}",
    )


def _why(error: SuiteError) -> str:
    if isinstance(error, ApiRefused) and error.forbidden:
        return "no right to get pods/log" if "/log" in error.request else "no right to list pods"
    return first_line(error)[:SHOWN]
