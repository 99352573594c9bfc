# SPDX-License-Identifier: Apache-2.0
"""Readings from the nodes of a failing path, made right after the failure: HNS endpoints and
networks, Felix' log.

The readings are best effort: they decide nothing, and hide no failure. They are independent: a
failed reading becomes a line with its error, and a reading that takes too long is left out. If
Calico's own pod can be used, no pod is created.
"""

import functools
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace

from conformance.errors import Nonconformance, first_line
from conformance.evidence import hns_text, packets
from conformance.evidence.layer import PathEvidence, conclude
from conformance.evidence.packet_capture import (
    PAUSE,
    Observe,
    Retries,
    ends_of,
    questions_of_packets,
)
from conformance.evidence.path_reading import PathReading, Sources, command, is_about_a_path
from conformance.facts.diagnostics_bundle import calico_pods
from conformance.kube.client import Kube, Obj
from conformance.model.attempt import Attempt
from conformance.model.capture import Capture
from conformance.model.counted import counted
from conformance.model.endpoint import Workload
from conformance.model.explanation import LAYER
from conformance.model.observation import Observation
from conformance.probe import hns
from conformance.probe.host import Hosts, Place, Run
from conformance.settings import Timings

PAIRS = 3
"""The maximum number of pairs of nodes for which a failure's evidence is gathered."""
BEFORE = 15.0
"""Felix' log is read from this many seconds before the expectation's first attempt, so that it
includes the policy change. The change directly precedes this attempt."""
WITHOUT_ATTEMPTS = 120.0
"""Seconds of Felix' log, up to now, that are read if the failure has no attempt."""
LOG_BYTES = 256 * 1024
"""The maximum number of bytes that are read of a log."""
FELIX = "felix"
"""The name of Felix' container in calico-node's pods on Windows; on Linux the name is
``calico-node``."""


class Evidence:
    """Gathers the evidence of failures for one worker."""

    def __init__(
        self,
        kube: Kube,
        run: Run,
        host: Place,
        timings: Timings,
        again: Observe | None = None,
        *,
        pods: str = hns.PODS,
        layer: Sources | None = None,
    ) -> None:
        """Set up the evidence.

        ``host`` returns the run's own pod on a node's host, and ``run`` runs a command in a pod.
        ``again`` makes attempts once more, while packets are captured; None: no packets are
        captured. ``pods``: the regular expression that matches the names of pods' HNS networks.
        ``layer``: the sources of the conclusion about the failed layer; None: there is no
        conclusion.
        """
        self._kube = kube
        self._run = run
        self._host = host
        self._again = again
        self._pods = pods
        self._layer = layer
        self._within = timings.run.evidence
        self._timings = replace(
            timings, windows=replace(timings.windows, exec_overhead=self._within)
        )
        self._threads = ThreadPoolExecutor(max_workers=16, thread_name_prefix="evidence")

    def of(self, error: BaseException) -> dict[str, str | bytes]:
        """Return the attachments about a failure, by name: texts, or pcap files as bytes. Return
        nothing if the failure is about no pair of pods."""
        paths = failing_paths(error)
        if not paths:
            return {}
        chosen = choose(paths)
        began = time.monotonic()
        look = _Look(self._kube, self._host, chosen)
        hosts = Hosts(
            self._run, look.on_windows, self._host, self._timings, once=True, pods=self._pods
        )
        texts = self._ask(look.questions(hosts, seconds_to_read(error)), self._within)
        summary = [
            f"Examined {len(chosen)} of {counted(len(paths), 'path')} that were not as "
            "expected: a path for each pair of nodes, paths with a Windows end first, "
            f"{PAIRS} at most.",
            *(f"  {path.label}" for path in chosen),
            f"Read within {time.monotonic() - began:.1f} s after the failure; it is evidence, and "
            "did not decide the verdict.",
        ]
        concluded = self._conclude(hosts, look, paths[0], error)
        captured = self._capture(hosts, to_capture(chosen)) if self._again else {}
        return {"failing pairs": "\n".join(summary), **texts, **concluded, **captured}

    def _conclude(
        self, hosts: Hosts, look: "_Look", path: Attempt, error: BaseException
    ) -> dict[str, str]:
        """Return the conclusion about the failed layer, and insert it as the second line of the
        failure's message. Return nothing if the failure is not about a path that is open or closed.
        """
        explanation = getattr(error, "explanation", None)
        if (
            self._layer is None
            or explanation is None
            or not isinstance(error, Nonconformance)
            or (not is_about_a_path(path, explanation))
        ):
            return {}
        reading = PathReading(self._kube, hosts, self._layer)
        taken: list[PathEvidence] = []

        def concluded() -> str:
            taken.append(reading.read(path, explanation))
            return conclude(taken[0])

        texts = self._ask({LAYER: concluded}, self._within)
        if not texts[LAYER].startswith("("):
            ends = {end.label: end for end in ends_of(path)}
            lists = sorted(taken[0].ends, key=lambda end: not end.difference)
            shown = [
                command(look.on_windows(end.node), ends[end.pod])
                for end in lists
                if end.node in texts[LAYER]
            ]
            lines = texts | ({"shown by": shown[0]} if shown else {})
            error.explanation = replace(explanation, lines=lines | explanation.lines)
            error.args = (str(error.explanation), *error.args[1:])
        return texts

    def close(self) -> None:
        """Wait for readings that are still running."""
        self._threads.shutdown(wait=True, cancel_futures=True)

    def _capture(self, hosts: Hosts, path: Attempt) -> dict[str, str | bytes]:
        """Return the packets on the nodes of a path's ends while the path is tried again."""
        assert self._again is not None
        retries = Retries(self._again, path)
        trying = self._threads.submit(retries.run)
        captures: dict[str, Capture] = {}
        texts = self._ask(
            questions_of_packets(hosts, path, self._timings.run.capture, captures),
            self._timings.run.capture + self._within,
        )
        retries.end.set()
        wait([trying], timeout=path.give_up_after + PAUSE)
        files = {
            f"packets on {node}, for Wireshark": packets.pcap(capture)
            for node, capture in captures.items()
        }
        return {
            "tried again while packets were captured": "\n".join(retries.lines),
            **texts,
            **files,
        }

    def _ask(self, questions: dict[str, Callable[[], str]], within: float) -> dict[str, str]:
        asked = {
            name: self._threads.submit(_guarded, question) for name, question in questions.items()
        }
        wait(asked.values(), timeout=within)
        late = f"(not gathered: no answer within {within:g} s)"
        texts = {name: answer.result() if answer.done() else late for name, answer in asked.items()}
        for answer in asked.values():
            answer.cancel()
        return texts


@dataclass(frozen=True)
class _Look:
    """The reader of the nodes of some failed paths."""

    kube: Kube
    host: Place
    paths: Sequence[Attempt]

    @functools.cached_property
    def ends(self) -> list[Workload]:
        """Return the pods at the paths' ends, each only once."""
        return list({end.uid: end for path in self.paths for end in ends_of(path)}.values())

    @functools.cached_property
    def calico_pods(self) -> dict[str, Obj]:
        """Return the pod of calico-node on each node that has one."""
        pods = calico_pods(self.kube, list(dict.fromkeys(end.node for end in self.ends)))
        return {pod["spec"].get("nodeName"): pod for pod in reversed(pods)}

    def questions(self, hosts: Hosts, seconds: float) -> dict[str, Callable[[], str]]:
        """Return the readings to take from the nodes, by title. ``seconds``: only the last seconds
        of the logs are read."""
        asked: dict[str, Callable[[], str]] = {}
        for node in dict.fromkeys(end.node for end in self.ends):
            pods = [end for end in self.ends if end.node == node]
            if pods[0].os == "windows":
                asked[f"HNS endpoints of failing pairs on {node}"] = functools.partial(
                    lambda node, pods: hns_text.endpoints(node, pods, hosts.hns_endpoints(node)),
                    node,
                    pods,
                )
                asked[f"HNS networks of {node}"] = functools.partial(
                    lambda node: hns_text.networks(hosts.hns_networks(node)), node
                )
            asked[f"Felix around the failure on {node}"] = functools.partial(
                self._felix, node, seconds
            )
        return asked

    def _felix(self, node: str, seconds: float) -> str:
        pod = self.calico_pods.get(node)
        if pod is None:
            return f"(not gathered: no pod of calico-node was found on node {node})"
        meta = pod["metadata"]
        container = FELIX if FELIX in _running(pod) else "calico-node"
        text = self.kube.logs(
            meta["namespace"], meta["name"], container, since=seconds, head=LOG_BYTES
        )
        source = f"{meta['namespace']}/{meta['name']} {container}"
        return f"# {source}, from {seconds:.0f} s ago on\n{text or '(nothing)'}"

    def on_windows(self, node: str) -> Workload:
        """Return the pod in which to read a Windows host: Calico's HostProcess pod, or a new pod of
        the run if there is none."""
        pod = self.calico_pods.get(node)
        if pod is None or FELIX not in _running(pod):
            return self.host(node)
        meta = pod["metadata"]
        address = str((pod.get("status") or {}).get("hostIP") or "")
        return Workload(
            namespace=meta["namespace"],
            pod=meta["name"],
            container=FELIX,
            uid=meta["uid"],
            role="calico-node",
            os="windows",
            node=node,
            address=address,
            node_address=address,
            host_network=True,
        )


def failing_paths(error: BaseException) -> list[Attempt]:
    """Return the paths that a failure is about, the worst first. If the failure names no path,
    return the paths of all its observations."""
    cause: BaseException | None = error
    causes: list[BaseException] = []
    # an error that was stored and raised again can be its own cause
    while cause is not None and cause not in causes:
        if paths := getattr(cause, "paths", ()):
            return list(paths)
        causes.append(cause)
        cause = cause.__cause__
    observations: Sequence[Observation] = getattr(error, "observations", ())
    attempts = [observation.attempt for observation in observations]
    return list({(attempt.source.uid, attempt.label): attempt for attempt in attempts}.values())


def choose(paths: Sequence[Attempt]) -> list[Attempt]:
    """Return a path for each pair of nodes. Paths with a Windows end come first; apart from this,
    the order stays."""
    found: dict[tuple[str, ...], Attempt] = {}
    for path in paths:
        found.setdefault(tuple(end.node for end in ends_of(path)), path)
    return sorted(
        found.values(), key=lambda path: all(end.os != "windows" for end in ends_of(path))
    )[:PAIRS]


def to_capture(paths: Sequence[Attempt]) -> Attempt:
    """Return the path whose packets are captured: if possible, a path between two nodes of which
    one runs Linux, since Linux nodes show the packets."""

    def lacks(path: Attempt) -> tuple[bool, bool]:
        ends = ends_of(path)
        return len({end.node for end in ends}) < 2, all(end.os == "windows" for end in ends)

    return min(paths, key=lacks)


def seconds_to_read(error: BaseException) -> float:
    """Return the seconds of a log that belong to a failure: from just before the first failed
    attempt until now."""
    observations: Sequence[Observation] = getattr(error, "observations", ())
    return (
        time.time() - min(observation.at for observation in observations) + BEFORE
        if observations
        else WITHOUT_ATTEMPTS
    )


def _running(pod: Obj) -> list[str]:
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    return [status["name"] for status in statuses if "running" in (status.get("state") or {})]


def _guarded(question: Callable[[], str]) -> str:
    try:
        return question() or "(empty)"
    except Exception as error:  # an error of the evidence must not replace the test's own failure
        return f"(not gathered: {first_line(error)})"
