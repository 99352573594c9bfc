# SPDX-License-Identifier: Apache-2.0
"""The part of a run that each process has: its cluster, the facts about it, and its lock."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conformance.errors import ClusterUnusable, SuiteError, UsageProblem, first_line, lack_of_files
from conformance.kube.ownership import Ownership
from conformance.kube.reach import Reach
from conformance.model.codec import to_plain
from conformance.model.facts import Fact, Facts
from conformance.pods.coverage import matches
from conformance.run.choice import Choice
from conformance.run.directory import RunDirectory
from conformance.run.progress import Alive, Progress
from conformance.run.provider import Connection, Inspection, Lock, Provider
from conformance.schedule.plan import check_disruptable, writes_calico_policies
from conformance.settings import OwnPod, Settings, Timings, external_target

if TYPE_CHECKING:
    from conformance.facts.calico_api import CalicoApi
    from conformance.kube.changes import Changes
    from conformance.kube.client import Kube

NODE_FACTS = ("dsr", "update", "cni", "ipam", "plane", "differences", "calico", "install", "looked")
"""Facts that tests read on nodes: fields of NodeFacts, Calico's version there, how Calico was
installed, and that the node was read."""
LOOPBACK = re.compile(r"://(?:127\.|localhost\b|\[::1\])")
"""Matches the host in the address of an API server on this machine."""


@dataclass(kw_only=True)
class Run:
    """A run: the controller opens it, and every process that runs tests connects to it."""

    choice: Choice
    settings: Settings
    directory: RunDirectory | None
    """The run's folder; None in a run that touches nothing."""
    provider: Provider | None = None
    connection: Connection | None = None
    inspection: Inspection | None = None
    uncaptured: Callable[[], AbstractContextManager[object]] = nullcontext
    """A context in which printed text reaches the user."""
    workers: str = ""
    """The number of workers that ``-n auto`` chose, and why. If the user typed a larger number, the
    number that ``-n auto`` would choose. Empty: the user's number is used."""
    began: float = field(default_factory=time.monotonic)
    """When the run began, in seconds of the machine's monotonic clock, which all its processes
    share."""
    alive: Alive = field(default_factory=Alive)
    """For the controller: prints lines regularly, so that a long silence never worries the user."""
    interrupted: bool = False
    """True if the user, or a CI system, asked this process to end."""
    _lock: Lock | None = None
    _error: SuiteError | None = None

    @property
    def facts(self) -> Facts | None:
        """Return the facts; None before the cluster was read, and in a run that touches nothing."""
        return self.inspection.facts if self.inspection else None

    @property
    def evidence(self) -> str:
        """Return ``lab`` or ``field``."""
        return self.facts.evidence if self.facts else "field"

    @property
    def shares_machine(self) -> bool:
        """Return whether the cluster is a lab on this machine."""
        return self.evidence == "lab" and bool(
            self.connection and LOOPBACK.search(self.connection.label)
        )

    def open(self) -> None:
        """Open and inspect the cluster, once; a failure is raised again on each call. Controller
        only.
        """
        if self._error:
            raise self._error
        if self.inspection or not self.provider or not self.directory:
            return
        try:
            self.connection = self.provider.open(self.choice, self.settings, self.directory)
            if self.settings.verified_only and self.connection.unverified:
                raise UsageProblem(
                    f"--require: {self.connection.unverified}, and a gate depends on the API "
                    "server's answers: "
                    "add --accept-unverified-tls, "
                    "or name the certificate-authority in the kubeconfig"
                )
            self.settings = with_external_target(self.connection, self.settings)
            self.inspection = self.provider.inspect(self.connection, self.settings)
            if self.inspection.reasons:
                raise ClusterUnusable(self.inspection.reasons)
            check_timings(self.settings.timings, self.inspection.facts)
            check_nodes("--disruptive-node", [self.settings.disruptive_node], self.inspection.facts)
            check_disruptable(self.settings.disruptive_node, self.inspection.facts)
            check_nodes("--nodes", self.settings.cover.nodes, self.inspection.facts)
            check_own_node(self.settings.disruptive_node, self.inspection.own_pod)
            check_selector(self.settings.cover.selector, self.inspection.facts)
            self.settings = permitted(self.settings, self.inspection)
        except SuiteError as error:
            self._error = error
            if not self.choice.own_lab:  # a lab's log stays for the user
                self.directory.discard()
            raise

    def refuse(self, check: Callable[[Inspection], None]) -> None:
        """Run the check, which raises if the facts forbid the run; after an error, leave no folder
        behind."""
        assert self.inspection is not None  # the caller has opened the run
        assert self.directory is not None
        try:
            check(self.inspection)
        except SuiteError as error:
            self._error = error
            self.directory.discard()
            raise

    def connect(self) -> Any:
        """Return this process' connection to the cluster."""
        if not self.provider or not self.connection or not self.directory:
            raise SuiteError("this run has no cluster to connect to")
        return self.provider.connect(self.connection, self.settings, self.directory)

    def ownership(self, worker: str) -> Ownership:
        """Return the owner of objects that a worker of this run creates."""
        from conformance.journal import liveness  # imports the client of Kubernetes

        assert self.directory is not None  # a run that creates objects has a folder
        process = liveness.sign(self.directory.alive)
        return Ownership(self.settings.run_id, worker, process, self.settings.namespaces_prefix)

    def calico_api(self, kube: Kube, changes: Changes) -> CalicoApi:
        """Return the way to write Calico's objects on this cluster. Raise UsageProblem."""
        from conformance.facts.calico_api import CalicoApi  # imports the client of Kubernetes

        kubeconfig = self.connection.kubeconfig if self.connection else None
        return CalicoApi(
            kube,
            changes,
            calicoctl=self.settings.calicoctl,
            kubeconfig=Path(kubeconfig) if kubeconfig else None,
            context=self.connection.context if self.connection else None,
        )

    @property
    def writes_calico_policies(self) -> bool:
        """Return whether Calico policies can be written on this cluster."""
        assert self.facts is not None  # the cluster was inspected
        return writes_calico_policies(self.facts, self.settings)

    def learn(self, name: str, node: str, fact: Fact[Any]) -> None:
        """Record a test's finding about a node, for later verdicts and for the run's other
        processes.
        """
        self._take_in(name, node, fact)
        if self.directory:
            self.directory.write_node_fact(name, node, {"value": fact.value, "source": fact.source})

    def take_in(self, name: str) -> Mapping[str, Fact[Any]]:
        """Read what all processes have found out about nodes; return it by node."""
        found = self.directory.read_node_facts(name) if self.directory else {}
        facts = {node: Fact[Any](fact["value"], fact["source"]) for node, fact in found.items()}
        for node, fact in facts.items():
            self._take_in(name, node, fact)
        return facts

    def _take_in(self, name: str, node: str, fact: Fact[Any]) -> None:
        if self.inspection and name != "looked":
            self.inspection = replace(
                self.inspection, facts=self.inspection.facts.learnt(name, node, fact)
            )

    def take_lock(self) -> None:
        """Take the run's lock. Raise ClusterUnusable if another run has it, or has left the cluster
        changed."""
        self.lock().acquire()
        if self.provider and self.connection and self.inspection:
            left = self.provider.unrestored(self.connection, self.settings, self.inspection.facts)
            if left:
                raise ClusterUnusable(left)

    def lock(self) -> Lock:
        """Return the run's lock, which keeps other runs from disrupting the cluster; only the
        controller takes it."""
        if self._lock is None:
            if not self.provider or not self.connection:
                raise SuiteError("this run has no cluster, so it has no run lock")
            progress = self.progress()
            self._lock = self.provider.lock(
                self.connection, self.settings, tell=progress.tell, progress=progress
            )
        return self._lock

    def unlock(self) -> None:
        """Give the lock back, if it was taken."""
        if self._lock is not None:
            self._lock.release()

    @property
    def reach(self) -> Reach:
        """Return the state of the API server: whether requests are possible."""
        return Reach(self.directory.shared if self.directory else None)

    def blame_machine(self, error: BaseException) -> None:
        """End the run if the error means that this process cannot open any more files."""
        if lack := lack_of_files(error):
            self.reach.end(lack, unusable=True)

    @property
    def over(self) -> str:
        """Return one line once the time limit for beginning tests has passed. Return an empty
        string before this time, or if there is no limit."""
        minutes = self.settings.max_minutes
        if minutes is None or time.monotonic() - self.began < minutes * 60:
            return ""
        return f"--max-minutes {minutes:g} had passed before this test began"

    @property
    def lost(self) -> str:
        """Return how the lock was lost; empty if it was not lost."""
        return self._lock.lost if self._lock else ""

    def interrupt(self) -> None:
        """End the run: only the cleanup still runs, for a short time.

        Takes no lock, since signal handlers call it.
        """
        self.interrupted = True
        if self.provider:
            self.provider.interrupt(self.settings.clearing_up)

    @property
    def stays(self) -> bool:
        """Return whether the run's objects are left on the cluster: because the user wants it, or
        because they end with the run's own lab."""
        return self.choice.own_lab or self.settings.keep

    def clean_up(self) -> list[str]:
        """Remove the objects that the run's processes have left, unless they may stay."""
        if not self.provider or not self.connection or self.stays:
            return []
        return self.provider.clean_up(self.connection, self.settings)

    def last_look(self, nodes: Collection[str]) -> list[str]:
        """Return notes about logs of these nodes since the run began; none after an interruption,
        or if the cluster does not answer."""
        ended = self.interrupted or self.reach.ended or self.reach.gone
        if ended or not self.provider or not self.connection:
            return []
        seconds = time.monotonic() - self.began
        try:
            return self.provider.last_look(self.connection, self.settings, nodes, seconds)
        except Exception as error:  # no error in making notes may cost the report
            return [
                f"last look at logs: the logs could not be read: {type(error).__name__}: "
                f"{first_line(error)}"
            ]

    def progress(self) -> Progress:
        """Return the printer of progress lines about waits."""
        return Progress(
            self.settings.timings.run.progress_every, self.uncaptured, self.alive.note_output
        )

    def for_worker(self) -> dict[str, Any]:
        """Return the values that a worker needs, as plain values."""
        return {
            "run": str(self.directory.path) if self.directory else "",
            "run_id": self.settings.run_id,
            "began": self.began,
            "connection": to_plain(self.connection),
            "inspection": to_plain(self.inspection),
        }


def permitted(settings: Settings, inspection: Inspection) -> Settings:
    """Return the settings, limited to what the run's user may do: without disruption if the run
    lock cannot be taken, or if the cluster's owner has not opted in.
    """
    settings = replace(
        settings,
        lacking=inspection.lacking,
        token_ends=inspection.token_ends,
        own_pod=inspection.own_pod,
    )
    if settings.cluster_disruptive and inspection.not_opted_in:
        settings = replace(
            settings, cluster_disruptive=False, not_cluster_disruptive=inspection.not_opted_in
        )
    if not inspection.no_lock:
        return settings
    return replace(settings, disruptive=False, not_disruptive=inspection.no_lock)


def with_external_target(connection: Connection | None, settings: Settings) -> Settings:
    """Return the settings. If no option names an external target, the settings get the target that
    the cluster announces."""
    if settings.external_target or not connection or not connection.external_target:
        return settings
    return replace(settings, external_target=external_target(connection.external_target))


def check_timings(timings: Timings, facts: Facts) -> None:
    """Raise UsageProblem if the timings were measured on emulated nodes, and the run is on real
    nodes."""
    if timings.measured_on_lab and facts.evidence != "lab":
        raise UsageProblem(
            f"{timings.measured_on_lab}: these timings were measured on the emulated nodes of a "
            "lab, and "
            "real nodes may need longer; measure this cluster: "
            "calico-conformance calibrate --kubeconfig=FILE"
        )


def check_nodes(option: str, names: Iterable[str], facts: Facts) -> None:
    """Raise UsageProblem if an option names a node that does not exist. An empty name stands for no
    node."""
    for name in names:
        if name and name not in {node.name for node in facts.nodes}:
            there = ", ".join(f"{node.name} ({node.os})" for node in facts.nodes)
            raise UsageProblem(
                f"{option} {name}: this cluster has no such node; its nodes are {there}"
            )


def check_own_node(name: str, own: OwnPod | None) -> None:
    """Raise UsageProblem if tests would change the node on which the run itself is."""
    if own and name and name == own.node:
        raise UsageProblem(
            f"--disruptive-node {name}: this run's own pod is on that node; name another node, or "
            "let the Job "
            "run elsewhere (calico-conformance job --node=NAME)"
        )


def check_selector(selector: str, facts: Facts) -> None:
    """Raise UsageProblem if no node has the labels that ``--node-selector`` names. An empty
    selector is allowed."""
    if selector and not any(matches(selector, node) for node in facts.nodes):
        keys = {wanted.partition("=")[0] for wanted in selector.split(",")}
        alike = sorted(
            {
                f"{key}={value}"
                for node in facts.nodes
                for key, value in node.labels.items()
                if key in keys
            }
        )
        known = (
            f"nodes have {', '.join(alike)} with these keys"
            if alike
            else "no node has a label with these keys"
        )
        raise UsageProblem(
            f"--node-selector {selector}: no node of this cluster has these labels; {known}"
        )
