# SPDX-License-Identifier: Apache-2.0
"""Opens the cluster that the user names, or the run's own lab."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from conformance.errors import ClusterUnusable, SuiteError
from conformance.kube import access
from conformance.kube.client import Kube
from conformance.kube.connection import preload
from conformance.kube.first_contact import first_contact
from conformance.kube.ownership import Ownership
from conformance.kube.reach import Reach
from conformance.kube.refused import ApiRefused, ApiUnreachable
from conformance.model.change import PutBack
from conformance.model.facts import Fact, Facts, NodeFacts
from conformance.printing import say
from conformance.run.choice import Choice
from conformance.run.directory import RunDirectory
from conformance.run.lab import LabProcess
from conformance.run.provider import Connection, Inspection
from conformance.settings import Settings
from conformance.timing import until

if TYPE_CHECKING:
    from conformance.journal.lease import RunLock

OUTSIDE = re.compile(r"\boutside host (?P<address>[0-9.:]+)")
"""Matches the part of a lab's ready line that names a host outside its cluster. This host answers
ping and HTTP."""
LOOK_EVERY = 2.0
"""The interval, in seconds, between two checks whether a silent API server answers again."""
EMULATED = "hybridlab.emulated"
"""The label that marks an emulated node (docs/lab.md). By this label a lab is recognised if the run
reaches it through a kubeconfig."""


class Clusters:
    """The provider of every run for which no other provider is registered."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lab: LabProcess | None = None
        self._door: Kube | None = None
        self._run: RunDirectory | None = None
        self._process = ""
        """The signature of the process that opened the run and takes its lock; workers only check
        the lock."""
        self._recovered = False
        """True if a change was undone before the run began, so that the facts have changed."""

    def begin(self, choice: Choice, settings: Settings, run: RunDirectory) -> None:
        self._run = run
        if choice.own_lab:
            self._lab = LabProcess(
                run.path / "lab", choice.profile, settings.timings.run, choice.powershell
            )

    def open(self, choice: Choice, settings: Settings, run: RunDirectory) -> Connection:
        from conformance.journal import liveness

        self._process = liveness.sign(run.alive)
        preload()  # takes about as long as the lab's start, for which the run waits next
        path = str(choice.kubeconfig) if choice.kubeconfig else None
        outside = None
        if self._lab:
            outside = OUTSIDE.search(self._lab.wait())
            self._lab.watch(partial(Reach(run.shared).end, unusable=True, gone=True))
            path = str(self._lab.kubeconfig)
        connection = Connection(
            how=choice.how,
            label="",
            kubeconfig=path,
            context=choice.context,
            external_target=outside["address"] if outside else None,
        )
        access = _access(connection)
        profile = f"lab {choice.profile or 'default'}, " if self._lab else ""
        label = f"{profile}{access.server}, {access.where}"
        return replace(connection, label=label, unverified=access.unverified)

    def inspect(self, connection: Connection, settings: Settings) -> Inspection:
        from conformance.facts.consent import not_opted_in
        from conformance.facts.installed import installed
        from conformance.facts.own_pod import own_pod
        from conformance.facts.preflight import lacking_rights
        from conformance.facts.rights import lacking
        from conformance.facts.room import room_on_windows
        from conformance.foreign.beforehand import beforehand
        from conformance.journal.lease import LOCK_RIGHTS
        from conformance.kube.prepared import needed, usable

        door = self._connected(connection, settings)
        try:
            facts = self._usable(door, connection, settings)
            prefix = settings.namespaces_prefix
            prepared, problems = usable(door, prefix) if prefix else (0, [])
            if problems:
                raise ClusterUnusable(problems)
            no_lock = (
                lacking_rights(door, LOCK_RIGHTS)
                if settings.disruptive and connection.how != "lab"
                else []
            )
            return Inspection(
                facts=facts,
                no_lock="; ".join(no_lock),
                not_opted_in=not_opted_in(door)
                if facts.evidence == "field" and settings.cluster_disruptive
                else "",
                third_party_pods=_third_party_pods(door, facts)
                if settings.cluster_disruptive
                else {},
                lacking=lacking(
                    door,
                    calicoctl=settings.calicoctl is not None,
                    whole_cluster=settings.cluster_disruptive,
                    namespaces=list(needed(prefix, prepared)) if prefix else (),
                ),
                prepared=prepared,
                room=room_on_windows(door, facts),
                policies=beforehand(door, Ownership(settings.run_id, prefix=prefix), facts),
                token_ends=door.access.ends.timestamp() if door.access.ends else None,
                own_pod=own_pod(door, facts, os.environ)
                if connection.how == "in-cluster"
                else None,
                installed=installed(door),
            )
        except ApiRefused as error:
            forbidden = lacking_rights(door) if error.forbidden else []
            raise ClusterUnusable(forbidden or [first_contact(door.access, error)]) from None
        except ApiUnreachable as error:
            raise ClusterUnusable([first_contact(door.access, error)]) from None

    def _usable(self, door: Kube, connection: Connection, settings: Settings) -> Facts:
        """Return the facts of a cluster, after the changes that dead runs left were restored.

        Raise ClusterUnusable with every reason why no run can begin.
        """
        from conformance.facts.detect import detect
        from conformance.facts.preflight import preflight
        from conformance.journal.other_runs import beside
        from conformance.pods.placement import Placement
        from conformance.pods.pull_secrets import unusable_pull_secrets

        facts = _judged(detect(door, evidence="field"), connection, settings)
        reasons = self._recover(door, facts, connection, settings)
        if self._recovered:
            facts = _judged(detect(door, evidence="field"), connection, settings)
        try:
            preflight(door, facts, unusable=Placement(facts, settings.tolerations).unusable)
        except ClusterUnusable as error:
            reasons += error.reasons
        if settings.shard:
            placement = Placement(facts, settings.tolerations, cover=settings.cover)
            covered = (*placement.coverage("linux"), *placement.coverage("windows"))
            reasons += beside(door, settings.run_id, {item.node.name for item in covered})
        if not settings.namespaces_prefix:
            reasons += unusable_pull_secrets(door, settings.images)
        if reasons:
            raise ClusterUnusable(reasons)
        return facts

    def _recover(
        self, door: Kube, facts: Facts, connection: Connection, settings: Settings
    ) -> list[str]:
        """Restore the changes that dead runs left. Return the reasons why a change cannot, or may
        not, be restored.

        A run that only reads reports what it would restore.
        """
        if connection.how == "lab":
            return []
        from conformance.undo.dead_runs import before_a_run

        def tell(line: str) -> None:
            self._recovered = not settings.reads_only
            say(line, error=True)

        return before_a_run(
            door,
            facts,
            settings,
            process=self._process,
            named_by=_named_by(connection),
            tell=tell,
        )

    def unrestored(self, connection: Connection, settings: Settings, facts: Facts) -> list[str]:
        if connection.how == "lab":
            return []
        from conformance.undo.dead_runs import left_by_dead

        return left_by_dead(
            self._connected(connection, settings), facts, settings, named_by=_named_by(connection)
        )

    def connect(self, connection: Connection, settings: Settings, run: RunDirectory) -> Kube:
        """Return this process' connection to the cluster. The processes of the run share the time
        since the API server last answered."""
        self._run = run
        return self._connected(connection, settings)

    def _connected(self, connection: Connection, settings: Settings) -> Kube:
        if self._door is None:
            reach = Reach(self._run.shared if self._run else None, settings.timings.run.api_gone)
            self._door = Kube(
                _access(connection),
                settings.timings.run,
                read_only=settings.reads_only,
                reach=reach,
            )
        return self._door

    def lock(
        self,
        connection: Connection,
        settings: Settings,
        *,
        tell: Callable[[str], None],
        progress: Callable[[str], None],
    ) -> RunLock:
        from conformance.journal import liveness
        from conformance.journal.lease import RunLock

        return RunLock(
            self._connected(connection, settings),
            Ownership(settings.run_id, settings.worker, self._process),
            settings.timings.run,
            tell=tell,
            progress=progress,
            life=liveness.of_maker,
        )

    def clean_up(self, connection: Connection, settings: Settings) -> list[str]:
        from conformance.journal import Journal
        from conformance.undo.cleanup import clean_up

        door = self._connected(connection, settings)
        notes = clean_up(
            door,
            settings.run_id,
            within=settings.timings.windows.delete,
            prefix=settings.namespaces_prefix,
        )
        try:
            Journal(door, Ownership(settings.run_id), within=settings.timings.run.journal).remove()
        except SuiteError as error:
            notes.append(f"the run's journal could not be removed: {str(error).splitlines()[0]}")
        return notes

    def put_back(
        self, connection: Connection, settings: Settings, facts: Facts, worker: str
    ) -> PutBack:
        from conformance.undo.dead_runs import of_a_worker

        return of_a_worker(
            self._connected(connection, settings),
            facts,
            settings,
            worker,
            process=self._process,
            memory=self._run.changes if self._run else None,
            named_by=_named_by(connection),
        )

    def last_look(
        self, connection: Connection, settings: Settings, nodes: Collection[str], seconds: float
    ) -> list[str]:
        from conformance.facts.last_look import last_look
        from conformance.probe import cni_log

        kube = self._connected(connection, settings)
        of_plugin = None if settings.reads_only else partial(cni_log.read, kube)
        return last_look(kube, nodes, seconds, of_plugin)

    def answers_again(self, connection: Connection, settings: Settings, *, within: float) -> bool:
        door = self._connected(connection, settings)
        settled = until(
            door.is_reachable,
            bool,
            within=within,
            every=LOOK_EVERY,
            description="the API server answers again",
        )
        if settled.converged:
            door.reach.is_back()
        return settled.converged

    def enter(self, test: str) -> None:
        if self._door is not None:
            self._door.test = test

    def interrupt(self, seconds: float) -> None:
        if self._door is not None:
            self._door.interrupt(seconds)

    def close(self) -> None:
        if self._door is not None:
            self._door.close()
            self._door = None
        if self._lab:
            self._lab.stop()


def _third_party_pods(door: Kube, facts: Facts) -> dict[str, tuple[str, ...]]:
    from conformance.pods.third_party import label, third_party_pods_by_node

    found = third_party_pods_by_node(door, {node.name for node in facts.by_os("windows")})
    return {node: tuple(map(label, pods)) for node, pods in found.items()}


def _judged(facts: Facts, connection: Connection, settings: Settings) -> Facts:
    """Return the facts with the version of Calico by which claims are judged, and the kind of
    evidence that this cluster gives (lab or field)."""
    if settings.calico_version:
        version = Fact(settings.calico_version, "--calico-version")
        # the option counts for every node
        facts = replace(facts, calico_version=version, calico_on_nodes={})
    if settings.windows_calico_version:
        version = Fact(settings.windows_calico_version, "--windows-calico-version")
        windows = {node.name: version for node in facts.by_os("windows")}
        facts = replace(facts, calico_on_nodes={**facts.calico_on_nodes, **windows})
        nodes = tuple(map(_with_calico, (*facts.nodes, *facts.left_out)))
        facts = replace(facts, nodes=nodes, left_out=()).with_calico().summed_up()
    emulated = connection.how == "lab" or any(EMULATED in node.labels for node in facts.nodes)
    return replace(facts, evidence="lab") if emulated else facts


def _with_calico(node: NodeFacts) -> NodeFacts:
    """Return a Windows node without Calico as a node that may have it, because the user's option
    names its version of Calico. Return any other node unchanged."""
    if node.virtual or not node.without_calico:
        return node
    return replace(
        node, felix=Fact(None, f"--windows-calico-version, though {node.without_calico}")
    )


def access_of(choice: Choice) -> access.Access:
    """Return how to reach a cluster that exists already. Raise UsageProblem."""
    path = str(choice.kubeconfig) if choice.kubeconfig else None
    return _access(Connection(how=choice.how, label="", kubeconfig=path, context=choice.context))


def _named_by(connection: Connection) -> list[str]:
    named = (
        [f"--kubeconfig={connection.kubeconfig}"]
        if connection.kubeconfig
        else [f"--cluster={connection.how}"]
    )
    return named + ([f"--context={connection.context}"] if connection.context else [])


def _access(connection: Connection) -> access.Access:
    if connection.how == "in-cluster":
        return access.in_cluster(os.environ)
    if connection.kubeconfig:
        return access.from_kubeconfig(Path(connection.kubeconfig), connection.context)
    return access.from_environment(os.environ, connection.context)
