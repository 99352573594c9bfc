# SPDX-License-Identifier: Apache-2.0
"""The durations of a run: a typed field for each, values per operating system in ``timings.yaml``.

Seconds are floats. An override names its units (``5 s``, ``250 ms``, ``2 min``, ``3 tries``). An
unknown entry or a missing unit raises UsageProblem with one line. No other module defines a
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
    """The time limits for one operating system."""

    pod_ready: float
    """Seconds from scheduling to Ready if the image is present. Linux: as in Calico's e2e conncheck
    (1 min); Windows: 5 min, since Calico's 15 min include the pull, and e2e density allows 59 s
    (P99) for a pause pod alone."""
    image_pull: float
    """Seconds to pull one image. Windows server core took over 10 min in the windows-testing lanes;
    Calico's win-fv waits 20 min."""
    warm_up: float
    """Seconds from Ready until DNS and one connection work. New Windows pods have no network for 4
    to 40 s (containerd#8340, azure-container-networking#299)."""
    tcp_give_up: float
    """The limit, in seconds, of one TCP attempt. Windows repeats its first SYN only after 3 s
    (kubernetes#107853), so a shorter attempt sends only one packet. Linux repeats it after 1 s (RFC
    6298)."""
    udp_give_up: float
    """The limit, in seconds, of one UDP attempt. No system repeats a datagram, so the attempt waits
    for no repetition. An answer takes milliseconds, on a busy Windows node up to a second."""
    syn_again: float
    """Seconds from a lost first SYN to the second SYN: Windows 3 s (kubernetes#107853), Linux 1 s
    (RFC 6298)."""
    syn_repeated: float
    """The limit, in seconds, of one attempt at a denial that is watched (``run.denial_watch``). It
    is long enough for the system to repeat its SYN, even if other attempts are shorter. If only
    first SYNs are dropped, a shorter attempt mistakes this for a denial. Linux repeats the SYN
    after 1 and 3 s (RFC 6298), Windows after 3 s (kubernetes#107853)."""
    refused_within: float
    """Seconds from a SYN to the refusal that the program receives. After a RST, Windows repeats its
    SYN twice, each time after 500 ms, before it accepts the refusal (KB175523): 1 to 3 s. Linux
    accepts the first RST."""
    http_give_up: float
    """The limit, in seconds, of one HTTP request, including the connection. Calico's e2e uses
    ``Invoke-WebRequest -TimeoutSec 5``; 3 s more allow Windows to repeat a lost first SYN."""
    dns_give_up: float
    """The limit, in seconds, for one name, including the search list. glibc and Windows both wait 5
    s or less for the first server; Windows asks a second time."""
    dns_slow: float
    """Seconds after which an answer of the cluster's own DNS to one name counts as slow. In
    Alpine's images, musl ends the first of its two tries after 2.5 s. CoreDNS answers names of the
    cluster from memory, in milliseconds."""
    exec_overhead: float
    """Seconds that an exec may take in addition to its attempts. PowerShell takes 2 to 4 s and a
    core to start (dotnet-framework-docker#25, #211)."""
    agent_hello: float
    """Seconds from an agent's exec to its hello. Server core has no native images of .NET since
    20H1, so that PowerShell compiles for 3 to 8 s if it has a core to itself
    (dotnet-framework-docker#25, #211). On a node of 2 cores it shares the cores with other
    starts."""
    agent_slot: float
    """Seconds for which an agent's start may wait while other agents start on its node. On Windows
    two agents start at once, so the twelfth agent of two workers waits for five starts. A wait that
    ends without a start counts as one try."""
    agent_silence: float
    """The silence, in seconds, after which an agent counts as dead: four missing heartbeats, which
    come every 5 s; on Windows nine, since PowerShell stops while .NET compiles."""
    policy_effect: float
    """Seconds from a policy change to its effect. Calico's e2e retries for 30 s, and for 60 s on
    Windows, whose HNS data plane "can take longer"."""
    service_effect: float
    """Seconds from a Service or endpoint change to its effect. kube-proxy on Windows needs up to 30
    s after its start (kubernetes#109162)."""
    hold: float
    """Seconds for which a verdict must hold once it is reached. Felix on Windows batches for 100 ms
    and tries again after 5 s."""
    agree_span: float
    """The minimum time, in seconds, between the starts of the first and the last attempt among the
    attempts that agree on a denial. Together with ``hold`` it must exceed an outage of two give-up
    times, in which every attempt could fail although its SYN is repeated."""
    poll_every: float
    """The pause, in seconds, between two attempts: 1 s as in Calico's e2e. On Linux it is shorter,
    since an attempt costs milliseconds, so that delays are measured more precisely."""
    agree_every: float
    """The pause, in seconds, between two rounds of expected answers, if whole rounds must agree
    (pages, backends, names). It is also the pause between two attempts in worlds of policies, and
    between two checks for the effect of a disruption. It equals ``poll_every``, but is shorter on a
    lab, where attempts cost a node nothing."""
    open_every: float
    """The pause, in seconds, between two attempts at open paths while all attempts of a source
    connect. It applies only if no path is expected to be closed, so that no denial has to hold. It
    is also the first pause after a change of policy. An attempt costs a running agent little on
    either system. If the agent's newest answer was late, the pause is at least twice that lateness;
    it is at most ``poll_every``."""
    agree: int
    """tries. The number of consecutive equal answers that make a verdict. gateway-api's conformance
    tests require 3."""
    stream_heartbeat: float
    """The pause, in seconds, between two heartbeats of a stream: short enough to date a reset, long
    enough to cost nothing."""
    stream_stall: float
    """Seconds without a heartbeat after which a stream counts as stalled: ten heartbeats. The
    sender repeats a lost packet within 300 ms, and a packet that is lost twice within 1 s (RFC
    6298, as Linux and Windows implement it)."""
    stream_watch: float
    """Seconds for which streams are observed after a change took effect. Felix on Windows batches
    for 100 ms and tries again after 5 s: if no reset has come within twice 5 s, none will come."""
    stream_recover: float
    """Seconds from the loss of a stream until a new connection must work. It equals the time for a
    policy change's effect, since the same programming of rules caused the loss."""
    delete: float
    """Seconds to delete a namespace with its pods. Kubernetes' e2e allows 5 min on Windows."""
    felix_restart: float
    """Seconds from deleting a node's calico-node pod until its successor is ready, which means that
    Felix has applied all rules once. Windows runs the init containers again, and node-service
    itself waits 10 s (node-service.ps1)."""
    drain: float
    """Seconds from the first eviction to the last pod's end. Pods on Windows end slowly:
    Kubernetes' e2e waits 10 min."""

    def give_up(self, kind: Kind) -> float:
        """Return the seconds after which an attempt of this kind gives up."""
        return {Kind.HTTP: self.http_give_up, Kind.UDP: self.udp_give_up}.get(
            kind, self.tcp_give_up
        )


@dataclass(frozen=True, kw_only=True)
class RunTimings:
    """The time limits for the run itself."""

    lab_ready: float
    """Seconds from starting the lab to its ready line. The lab needs 2 to 4 s on two idle cores,
    but runs also start on busy machines."""
    lab_end: float
    """Seconds from SIGTERM to the lab's end. A lab that takes longer is killed, and the kernel
    removes its namespaces."""
    facts: float
    """Seconds to read all facts that decide which claims apply; about 20 requests."""
    denial_watch: float
    """Seconds for which one denial per node and direction is observed after it was decided, by the
    standing watch or else by a test. Felix on Windows tries again after 5 s. A denial that ends
    after 5 s or 10 s is noticed within this time."""
    api_connect: float
    """The limit, in seconds, for TCP and TLS to the API server. Kubernetes' official client has no
    such limit for exec."""
    exec_connect: float
    """Seconds from requesting an exec to its acceptance. Before v5.channel.k8s.io (API servers
    before 1.30) the node's container runtime accepts it, which takes a busy Windows node
    seconds."""
    api_answer: float
    """The limit, in seconds, for the whole answer to one request; the API server itself gives up
    after 60 s."""
    api_retry: float
    """Seconds for which requests are repeated: reads that fail in transport or with 5xx, and all
    requests answered with 429."""
    watch: float
    """The maximum duration, in seconds, of a watch before objects are listed again. Gateways drop
    idle connections without notice to the receiver (AWS NAT after 350 s, Azure load balancers after
    4 min: Azure/AKS#1755)."""
    unschedulable: float
    """Seconds for which the scheduler may find no node for a pod. New nodes of an autoscaler take
    longer: add them before the run, or increase this time."""
    api_gone: float
    """Seconds without any answer from the API server to any process of the run, after which the run
    gives up: the remaining claims are INCONCLUSIVE, and the report is written. This time is longer
    than a change of a leader or of a virtual address (etcd's election takes 1 s, keepalived's 3 s,
    kube-vip's lease 15 s)."""
    pod_status: float
    """Seconds from a container's end until its pod's status shows it; the kubelet checks for ended
    containers once a second (its PLEG relists), and then writes the status."""
    journal: float
    """Seconds for which requests of the journal and of restoring are repeated while the API server
    does not answer. It must be longer than a rolling upgrade of a control plane's only node (1 to 2
    min). It applies to ``--restore`` and to error answers of the server. In a run, silence of the
    API server ends the run after ``api_gone``, and the run's end tries to restore the remaining
    changes (``put_back_away``)."""
    put_back: float
    """Seconds for which tests wait until the changes of a dead worker are restored. The worst case
    is the delivery of a VNI and, on a Windows node, a drain, a restart of Felix and a new pod. The
    value is the sum of ``vni_delivery``, ``drain``, ``felix_restart`` and ``pod_ready``, and some
    time for a second node."""
    put_back_away: float
    """Seconds for which the run's end tries to restore changes while the API server does not
    answer. It is longer than the restart of a control plane, gateway or VPN, and short enough for a
    CI job to report changes that stay."""
    vni_delivery: float
    """Seconds from writing vxlanVNI until every node has received it: Felix restarts on Linux, the
    operator renders Windows' DaemonSet anew and its pods are replaced one node after the other."""
    load_balancer: float
    """Seconds until a Service has an address of a load balancer: clouds take one to three
    minutes."""
    evict_again: float
    """The pause, in seconds, between two tries of an eviction that a PodDisruptionBudget forbids;
    ``kubectl drain`` waits 5 s."""
    lock_stale: float
    """Seconds without renewal after which another run may take a run lock. The holder renews the
    lock four times within this time. client-go's leader election uses 15 s within a cluster; a run
    may be at the other end of a slow link."""
    lock_wait: float
    """Seconds for which a run waits for a run lock of another run. Afterwards the run stops and
    names the holder."""
    lock_poll: float
    """The pause, in seconds, between two checks of the run lock while a run waits for it."""
    abandoned: float
    """The age, in seconds, from which objects of another machine's run count as abandoned. It is
    longer than any run, since a run without disruptive tests gives no sign of life (Calico's own
    Windows lanes take up to 3 h)."""
    named_dead: float
    """Seconds for which the run lock of a run that the user names as dead (``--restore --run ID``)
    must stay without renewal. It is one and a half times ``lock_stale``; in this time a living run
    renews its lock six times."""
    evidence: float
    """Seconds to read all hosts and logs of failing paths after a failure. A PowerShell start takes
    2 to 4 s on Windows (dotnet-framework-docker#25), and two starts run at once."""
    capture: float
    """The duration, in seconds, of the capture of a failing path's packets on each node: long
    enough for a Windows pod to try again, which takes up to ``tcp_give_up``."""
    felix_down: float
    """Seconds for which Felix may be absent from a node. Felix' readiness probe on Windows runs
    every 10 s, and must fail three times before a failure counts (tigera/operator,
    pkg/render/windows.go); the kubelet waits 10 s before it starts Felix again, and 20 s the next
    time."""
    watch_least: float
    """The minimum duration, in seconds, of the standing watch, even if there are few tests: the
    time that one policy change may take. If ``denial_watch`` is longer, it is the minimum
    instead."""
    watch_every: float
    """The pause, in seconds, between two attempts on each path of the standing watch, as in
    Calico's e2e. A path that opens is tried again at once."""
    node_status: float
    """The interval, in seconds, at which calico-node must report its BGP status
    (updatePeriodSeconds, Calico's documents show 10 s)."""
    hns_looks: float
    """The pause, in seconds, between two reads of HNS: only a result that both reads show counts. A
    pod's start and its end take seconds, and kube-proxy on Windows syncs its rules every 30 s
    (kubernetes, --iptables-sync-period of winkernel)."""
    progress_every: float
    """The interval, in seconds, of progress lines that name the thing for which a long step
    waits."""
    silent: float
    """Seconds without news of a running test after which the terminal names the test and its start;
    repeated at this interval."""
    test_limit: float
    """The limit, in seconds, for a test's set-up and body, from the beginning of its turn; after
    this time the test is interrupted and INCONCLUSIVE. Its pods may have to pull two images
    (``image_pull``) and become ready."""
    exclusive_limit: float
    """The limit, in seconds, for the set-up and body of a test that has nodes or the cluster to
    itself. Each of four Windows nodes may be drained, restarted and get pods again, in addition to
    ``vni_delivery``. The restoring afterwards is not interrupted."""
    workers_per_windows_node: int
    """workers. The maximum number that ``-n auto`` starts per Windows node; 2 until a real node is
    shown to carry more. ``--workers-per-windows-node`` replaces it."""


@dataclass(frozen=True, kw_only=True)
class Timings:
    """All time limits."""

    linux: OsTimings
    windows: OsTimings
    run: RunTimings
    measured_on_lab: str = ""
    """The option that named a calibration of emulated nodes; empty: none."""

    def of(self, os: OS) -> OsTimings:
        """Return the timings of an operating system."""
        return self.windows if os == "windows" else self.linux


def load_timings(override: Path | None = None, *, lab: bool = False) -> Timings:
    """Return the packaged timings, replaced by the entries of ``override``; for a ``lab``, shorter
    timings (``lab.yaml``).

    ``override``: YAML, or a calibration.json, whose measured values count within limits.

    Raise UsageProblem, in one line with file and line, if the file is unreadable or not YAML, if a
    key is unknown, or if a unit is missing or wrong.
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
                    f"{where}: {name}.tcp_give_up is {entries.tcp_give_up:g} s, but has to be more than {name}.{field}, "
                    f"which is {needed:g} s: {what} would look like a denial; raise tcp_give_up, or lower {field} "
                    "if packets cannot be lost"
                )
        spanned = entries.agree_span + entries.hold
        outage = 2 * entries.tcp_give_up - entries.syn_again
        if spanned <= outage:
            raise UsageProblem(
                f"{where}: {name}.agree_span + {name}.hold is {spanned:g} s, but has to be more than "
                f"2 x {name}.tcp_give_up - {name}.syn_again, which is {outage:g} s: an outage of two "
                "give-up times would look like a denial; raise agree_span or hold"
            )


SECTIONS: Mapping[str, Any] = {"linux": OsTimings, "windows": OsTimings, "run": RunTimings}


@functools.cache
def _packaged(name: str) -> Mapping[str, Mapping[str, Any]]:
    return _parse(resources.files(__package__).joinpath(name).read_text(encoding="utf-8"), name)


def _parse(text: str, where: str) -> dict[str, dict[str, Any]]:
    """Return the sections and entries that the text contains, with their numbers."""
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
        else "a value other than a number with its unit"
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
