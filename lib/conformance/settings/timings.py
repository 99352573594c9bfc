# SPDX-License-Identifier: Apache-2.0
"""The durations of a run: a typed field per meaning, values per operating system in
``timings.yaml``.

Seconds are floats.  An override names its units (``5 s``, ``250 ms``, ``2 min``, ``3 tries``);
anything unknown or without its unit is a UsageProblem of one line.  No other module defines a
time-out.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from conformance.errors import UsageProblem
from conformance.model.attempt import Kind
from conformance.model.endpoint import OS
from conformance.settings.assumptions import calibrated, calibration

_SECONDS = {"ms": 0.001, "s": 1.0, "min": 60.0}
_QUANTITY = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[a-z]+)")


@dataclass(frozen=True, kw_only=True)
class OsTimings:
    """Patience with one operating system."""

    pod_ready: float
    """s.  From scheduling to Ready with the image present.  Linux: as Calico's e2e conncheck (1 min); Windows: 5 min,
    since Calico's 15 min contain the pull, and e2e density allows 59 s (P99) for a pause pod alone."""
    image_pull: float
    """s.  Pulling one image.  Windows server core took over 10 min in the windows-testing lanes; Calico's win-fv waits
    20 min."""
    warm_up: float
    """s.  From Ready until DNS and one connection work.  New Windows pods have no network for 4 to 40 s
    (containerd#8340, azure-container-networking#299)."""
    tcp_give_up: float
    """s.  One TCP attempt.  Windows sends its first SYN again only after 3 s (kubernetes#107853),
    so less than that sees one packet only; Linux after 1 s (RFC 6298)."""
    udp_give_up: float
    """s.  One UDP attempt.  No system sends a datagram again, so no repetition is waited for; its
    answer takes milliseconds, on a busy Windows node up to a second."""
    syn_again: float
    """s.  From a lost first SYN to the second.  Windows 3 s (kubernetes#107853), Linux 1 s (RFC 6298)."""
    syn_repeated: float
    """s.  One attempt at a denial that is watched (``run.denial_watch``): long enough for the
    system to repeat its SYN whatever time other attempts get, since a drop of first SYNs alone
    looks like a denial to shorter attempts.  Linux repeats it after 1 and 3 s (RFC 6298), Windows
    after 3 s (kubernetes#107853)."""
    refused_within: float
    """s.  From a SYN to the refusal that the program sees.  Windows sends its SYN again twice after a RST, each after
    500 ms, before it believes it (KB175523): 1 to 3 s; Linux believes the first."""
    http_give_up: float
    """s.  One HTTP request, connection included.  Calico's e2e uses ``Invoke-WebRequest -TimeoutSec 5``; 3 s more let a
    lost first SYN be repeated on Windows."""
    dns_give_up: float
    """s.  One name, search list included.  glibc and Windows both wait 5 s or less for the first server; Windows asks a
    second time."""
    dns_slow: float
    """s.  One name from the cluster's own DNS: an answer that takes longer is slow.  musl, in Alpine's images, has used
    up the first of its two tries after 2.5 s; CoreDNS answers names of the cluster from memory, in milliseconds."""
    exec_overhead: float
    """s.  What an exec may take beyond the attempts in it.  PowerShell starts in 2 to 4 s and a core
    (dotnet-framework-docker#25, #211)."""
    agent_hello: float
    """s.  From an agent's exec to its hello.  Server core has no native images of .NET since 20H1, so that PowerShell
    compiles for 3 to 8 s on a core of its own (dotnet-framework-docker#25, #211), and on a node of 2 cores it shares
    them with other starts."""
    agent_slot: float
    """s. Wait for the start of an agent while others start on its node. On Windows two start at
    once, so the twelfth agent of two workers waits for five starts. A wait that ends without a
    start counts as one try."""
    agent_silence: float
    """s. Silence after which an agent counts as dead: four of its heartbeats, one each 5 s; on
    Windows nine, since PowerShell stops while .NET compiles."""
    policy_effect: float
    """s.  From a policy change to its effect.  Calico's e2e retries 30 s, and 60 s on Windows,
    whose HNS data plane "can take longer"."""
    service_effect: float
    """s.  From a Service or endpoint change to its effect.  kube-proxy on Windows needs up to 30 s after its start
    (kubernetes#109162)."""
    hold: float
    """s.  How long a verdict must last once reached.  Felix on Windows batches for 100 ms and tries again after 5 s."""
    agree_span: float
    """s.  From the start of the first to the start of the last of the attempts that agree on a
    denial. Together with ``hold`` it must exceed an outage of two give-up times, in which every
    attempt could fail with its repeated SYN."""
    poll_every: float
    """s.  Between two questions.  1 s as Calico's e2e; on Linux, where an attempt costs milliseconds, shorter, so that
    the measured delay is finer than the poll."""
    agree_every: float
    """s.  Between two rounds of answers that are as expected, where whole rounds must agree (pages,
    backends, names), between two attempts in worlds of policies, and between two checks for the
    effect of a disruption.  Equal to ``poll_every``; shorter on a lab, where attempts cost a node
    nothing."""
    open_every: float
    """s.  Between two attempts at open paths while all attempts of a source connect and no path is
    expected closed, so that nothing has to hold.  Also the first pause after a change of policy.
    An attempt costs a running agent little on either system.  Twice the time that the agent's
    newest answer was late, if that is longer; at most ``poll_every``."""
    agree: int
    """tries.  Equal answers in a row that make a verdict.  gateway-api's conformance asks for 3."""
    stream_heartbeat: float
    """s.  Between two heartbeats of a stream: often enough to date a reset, seldom enough to cost nothing."""
    stream_stall: float
    """s.  Without a heartbeat, after which a stream counts as stalled: ten of them.  A lost packet is sent again within
    300 ms, and twice lost within 1 s (RFC 6298, as Linux and Windows have it)."""
    stream_watch: float
    """s.  Time that streams are watched after a change took effect.  Felix on Windows batches for
    100 ms and tries again after 5 s: a reset that has not come in twice that time does not come."""
    stream_recover: float
    """s.  From the loss of a stream until a new connection must work: as for a policy change's effect, since what lost
    it is the same programming."""
    delete: float
    """s.  Deleting a namespace with its pods.  Kubernetes' e2e allows 5 min on Windows."""
    felix_restart: float
    """s.  From deleting a node's calico-node pod to its successor's readiness, that is Felix's first full apply.
    Windows runs the init containers again and node-service waits 10 s by itself (node-service.ps1)."""
    drain: float
    """s.  From the first eviction to the last pod's end.  Pods on Windows end slowly: Kubernetes' e2e waits 10 min."""

    def give_up(self, kind: Kind) -> float:
        """Return the seconds after which an attempt of this kind gives up."""
        return {Kind.HTTP: self.http_give_up, Kind.UDP: self.udp_give_up}.get(
            kind, self.tcp_give_up
        )


@dataclass(frozen=True, kw_only=True)
class RunTimings:
    """Patience with the run itself."""

    lab_ready: float
    """s.  From starting the lab to its ready line; it needs 2 to 4 s on two idle cores, and runs are also started on
    busy machines."""
    lab_end: float
    """s.  From SIGTERM to the lab's end; afterwards it is killed and the kernel removes its namespaces."""
    facts: float
    """s.  Reading everything that decides which claims apply; about 20 requests."""
    denial_watch: float
    """s. How long one denial per node and direction is watched after it was decided, by the
    standing watch or else by a test. Felix on Windows tries again after 5 s; a denial that ends
    then, or as long again after that, is noticed within this time."""
    api_connect: float
    """s.  TCP and TLS to the API server.  The official client has no such limit of its own for exec."""
    exec_connect: float
    """s.  From asking for an exec to its acceptance.  Before v5.channel.k8s.io (API servers before 1.30) it is the
    node's container runtime that accepts, which a busy Windows node takes seconds for."""
    api_answer: float
    """s.  The whole answer to one request; the API server itself gives up after 60 s."""
    api_retry: float
    """s.  Reads that fail in transport or with 5xx, and requests answered 429, are repeated for so long."""
    watch: float
    """s.  Maximum duration of a watch before objects are listed again: gateways drop idle
    connections without notice to the receiver (AWS NAT after 350 s, Azure load balancers after 4
    min: Azure/AKS#1755)."""
    unschedulable: float
    """s. How long the scheduler may find no node for a pod. New nodes of an autoscaler take longer
    than this: add them before the run, or increase this time."""
    api_gone: float
    """s.  Without any answer from the API server to any process of the run, after which it is gone for the rest of the
    run: what is left is INCONCLUSIVE, and the report is written.  Longer than a leader's or a virtual address' change
    (etcd's election takes 1 s, keepalived's 3 s, kube-vip's lease 15 s)."""
    pod_status: float
    """s.  From a container's end to its pod's status saying so; the kubelet looks for ended containers once a second
    (its PLEG relists), and then writes the status."""
    journal: float
    """s. How long requests of the journal and of restoring are repeated while the API server does
    not answer. This must outlast a rolling upgrade of a control plane's only node (1 to 2 min). It
    applies to ``--restore`` and to error answers of the server. In a run, silence ends the run
    after ``api_gone``, and the remaining changes are tried at its end (``put_back_away``)."""
    put_back: float
    """s. How long tests wait until the changes of a dead worker are restored. At worst that is a
    VNI's delivery, and on a Windows node a drain, a restart of Felix and a new pod:
    ``vni_delivery``, ``drain``, ``felix_restart`` and ``pod_ready`` together, and some more for a
    second node."""
    put_back_away: float
    """s.  How long the run's end tries to put back what the run has changed while the API server is away:
    longer than a restarted control plane, gateway or VPN, and short enough for a CI job to say what stays."""
    vni_delivery: float
    """s.  From writing vxlanVNI until every node has been given it: Felix restarts on Linux, the operator renders
    Windows' DaemonSet anew and its pods are replaced one node after the other."""
    load_balancer: float
    """s.  Until a Service has an address of a load balancer: clouds take one to three minutes."""
    evict_again: float
    """s.  Between two tries of an eviction that a PodDisruptionBudget forbids; kubectl drain waits 5 s."""
    lock_stale: float
    """s.  A run lock that was not renewed for so long may be taken by another run; it is renewed four times as often.
    client-go's leader election uses 15 s among neighbours; a run may lie on the far side of a slow link."""
    lock_wait: float
    """s. Wait for a run lock that another run holds; then the run stops and names the holder."""
    lock_poll: float
    """s. Between two checks of this lock."""
    abandoned: float
    """s.  Age from which objects of another machine's run count as abandoned; longer than any run,
    since a run that does not disrupt gives no sign of life (Calico's own Windows lanes take up to 3
    h)."""
    named_dead: float
    """s.  The run lock of a run that the user names as dead (``--restore --run ID``) is watched for so long and must
    not be renewed: one and a half times ``lock_stale``, in which a living run renews it six times."""
    evidence: float
    """s. For reading all hosts and logs of failing pairs after a failure. A PowerShell start takes
    2 to 4 s on Windows (dotnet-framework-docker#25), and two starts run at once."""
    capture: float
    """s.  Packets of a failing pair are captured for so long on each node, once that has begun there: long enough for
    a Windows pod to try again, which takes up to ``tcp_give_up``."""
    felix_down: float
    """s.  Felix may be away from a node for so long: its readiness probe on Windows is asked every 10 s and has to fail
    three times before it counts (tigera/operator, pkg/render/windows.go), and its kubelet starts it again after 10 s
    and 20 s, the first times."""
    watch_least: float
    """s.  The standing watch goes on for so long at least, and for ``denial_watch``, however few tests there are: as
    long as one change of policy may take."""
    watch_every: float
    """s.  Between two attempts on each path of the standing watch, as Calico's e2e polls; a path
    that opens is tried again at once."""
    node_status: float
    """s.  How often calico-node is asked to say its BGP status (updatePeriodSeconds, Calico's
    documents show 10 s)."""
    hns_looks: float
    """s.  Between two looks at HNS: only what both show counts.  A pod's start and its end take
    seconds, and kube-proxy on Windows syncs its rules every 30 s (kubernetes, --iptables-sync-period
    of winkernel)."""
    progress_every: float
    """s.  Between two lines that say what a long step waits for."""
    silent: float
    """s. If a running test has no news for this long, the terminal names it and its start; repeated
    at this interval."""
    test_limit: float
    """s.  For a test's set-up and body, after its turn came; then it is interrupted, and
    INCONCLUSIVE.  Its pods may have to pull two images (``image_pull``) and become ready."""
    exclusive_limit: float
    """s.  The same for a test that has nodes or the cluster to itself: each of four Windows nodes
    may be drained, restarted and get pods again, besides ``vni_delivery``.  What is put back
    afterwards is not interrupted."""
    workers_per_windows_node: int
    """workers.  The number that ``-n auto`` starts where Windows nodes bound it; 2 until a real
    node is shown to bear more.  ``--workers-per-windows-node`` counts before it."""


@dataclass(frozen=True, kw_only=True)
class Timings:
    """All of them."""

    linux: OsTimings
    windows: OsTimings
    run: RunTimings
    measured_on_lab: str = ""
    """The option that named a calibration of emulated nodes; empty: none."""

    def of(self, os: OS) -> OsTimings:
        """Return the timings of an operating system."""
        return self.windows if os == "windows" else self.linux


def load_timings(override: Path | None = None, *, lab: bool = False) -> Timings:
    """Return the packaged timings with the entries of ``override`` in their place; on a ``lab``
    shorter timings (``lab.yaml``).

    ``override`` is YAML, or a calibration.json, of which the measured values count within bounds.

    Raise UsageProblem, in one line with file and line: unreadable, not YAML, unknown key, missing
    or wrong unit.
    """
    values = {section: dict(entries) for section, entries in _packaged("timings.yaml").items()}
    if lab:
        for section, entries in _packaged("lab.yaml").items():
            values[section].update(entries)
    measured = None
    if override is not None:
        try:
            text = override.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
            raise UsageProblem(f"--timings {override}: cannot be read: {why}") from None
        where = f"--timings {override}"
        measured = calibration(text, where)
        given = calibrated(measured) if measured else _parse(text, where)
        for section, entries in given.items():
            values[section].update(entries)
    sections = {name: cls(**values[name]) for name, cls in SECTIONS.items()}
    _demand_patience(sections, f"--timings {override}" if override else "timings")
    is_of_lab = measured is not None and measured.get("evidence") == "lab"
    return Timings(**sections, measured_on_lab=f"--timings {override}" if is_of_lab else "")


def _demand_patience(sections: Mapping[str, Any], where: str) -> None:
    """Raise UsageProblem if an attempt would end before its system can show a lost packet or a
    refusal, or if an outage would look like a denial."""
    for name in ("linux", "windows"):
        entries: OsTimings = sections[name]
        for field, what in (("syn_again", "a lost packet"), ("refused_within", "a refusal")):
            needed = getattr(entries, field)
            if entries.tcp_give_up <= needed:
                raise UsageProblem(
                    f"{where}: {name}.tcp_give_up is {entries.tcp_give_up:g} s and {name}.{field} {needed:g} s: "
                    f"{what} would look like a denial; give it more, or lower {field} where packets cannot be lost"
                )
        spanned = entries.agree_span + entries.hold
        outage = 2 * entries.tcp_give_up - entries.syn_again
        if spanned <= outage:
            raise UsageProblem(
                f"{where}: {name}.agree_span + {name}.hold is {spanned:g} s, but has to be more than "
                f"2 x {name}.tcp_give_up - {name}.syn_again, which is {outage:g} s: an outage of two "
                "give-up times would look like a denial; give them more"
            )


SECTIONS: Mapping[str, Any] = {"linux": OsTimings, "windows": OsTimings, "run": RunTimings}


@functools.cache
def _packaged(name: str) -> Mapping[str, Mapping[str, Any]]:
    return _parse(resources.files(__package__).joinpath(name).read_text(encoding="utf-8"), name)


def _parse(text: str, where: str) -> dict[str, dict[str, Any]]:
    """Return sections and entries with their numbers, only those that the text names."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        root = yaml.compose(text, Loader=loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "not YAML"
        raise UsageProblem(f"{where}{line}: not YAML: {problem}") from None
    values: dict[str, dict[str, Any]] = {}
    for key, section in _entries(root, where, "sections linux, windows, run"):
        if key.value not in SECTIONS:
            raise UsageProblem(
                f"{where}:{key.start_mark.line + 1}: unknown section {key.value!r}; there are {', '.join(SECTIONS)}"
            )
        known = {field.name: str(field.type) for field in fields(SECTIONS[key.value])}
        values[key.value] = entries = {}
        for name, value in _entries(section, where, f"entries of {key.value}"):
            place = f"{where}:{name.start_mark.line + 1}: {key.value}.{name.value}"
            if name.value not in known:
                raise UsageProblem(f"{place}: unknown key; {key.value} has {', '.join(known)}")
            entries[name.value] = _quantity(value, known[name.value], place)
    return values


def _entries(node: Any, where: str, what: str) -> Any:
    if node is None:
        return []
    if not isinstance(node, yaml.MappingNode):
        raise UsageProblem(f"{where}:{node.start_mark.line + 1}: expected {what} as a mapping")
    return node.value


def _quantity(node: Any, kind: str, place: str) -> float | int:
    text = (
        str(node.value)
        if isinstance(node, yaml.ScalarNode)
        else "something else than a number with its unit"
    )
    match = _QUANTITY.fullmatch(text.strip())
    unit = match["unit"] if match else ""
    if kind == "int":
        counted_as = "workers" if place.endswith("workers_per_windows_node") else "tries"
        if match and unit == counted_as and match["number"].isdigit() and int(match["number"]) > 0:
            return int(match["number"])
        raise UsageProblem(f'{place}: expected a count such as "3 {counted_as}", found "{text}"')
    if match and unit in _SECONDS and float(match["number"]) > 0:
        return float(match["number"]) * _SECONDS[unit]
    raise UsageProblem(
        f'{place}: expected a time such as "5 s", "250 ms" or "2 min", found "{text}"'
    )
