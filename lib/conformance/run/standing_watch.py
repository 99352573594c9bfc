"""Asks the paths of the standing watch from a run's beginning to its end, in the process that holds the run.

On each covered node stand two small pods that no test touches, each behind a Service of its own: a watched one, which a
policy of each API selects, and a free one.  The watched are entered by the watched alone (Kubernetes' policy), and
enter these alone (Calico's).  The nodes are a ring, and each is asked from the next one.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from conformance.errors import EnvironmentBroken, SuiteError, first_line
from conformance.expect.engine.answered import plain
from conformance.expect.standing_watch import Kept, Turn, Watched, Way
from conformance.facts.calico_api import CalicoApi
from conformance.journal import liveness
from conformance.kube.changes import Changes
from conformance.kube.client import Kube
from conformance.kube.ownership import WATCH, Ownership
from conformance.kube.refused import ApiRefused
from conformance.kube.waits import is_ready
from conformance.model.attempt import Attempt
from conformance.model.codec import from_plain, to_plain
from conformance.model.endpoint import OS, Workload
from conformance.model.facts import NodeFacts
from conformance.model.observation import Verdict
from conformance.pods.coverage import Covered
from conformance.pods.deploy import Pods, Wish, changed, there_now
from conformance.pods.nodes_lost import NodeWatch
from conformance.pods.placement import Placement
from conformance.pods.roles import ECHO_PORT, ROLES
from conformance.pods.services import Services, cluster_domain
from conformance.pods.tailor import SEAT
from conformance.probe.prober import Answered, Limits, Prober
from conformance.run.directory import RunDirectory
from conformance.run.plan import writes_calico_policies
from conformance.run.policies import Policy
from conformance.run.provider import Room
from conformance.run.run import Run
from conformance.run.transcript import ExecTranscript
from conformance.settings import Workers
from conformance.timing import until

PODS = 2
"""Pods, and agents, of the watch on each covered node."""
NAP = 0.1
"""s.  Longest wait for an answer before looking whether something is due."""
LOOK = 5.0
"""s.  Between two looks whether the pods are still what they were, and after an attempt that broke."""
ENDS, ANSWER = "watch-ends", "watch.json"
"""Files that the run's processes share: one asks the watch to end, the other has what it has kept then."""
HAPPENED = {"ADDED": "came", "DELETED": "went"}


def leave_room(
    bounds: Workers, coverage: Sequence[Covered], room: Mapping[str, Room]
) -> tuple[Workers, dict[str, Room]]:
    """Bounds of ``-n auto`` and what Windows nodes have left, without what the watch takes."""
    memory = PODS * bounds.memory // bounds.addresses
    return replace(bounds, agents=bounds.agents - PODS * len(coverage)), {
        name: Room(addresses=one.addresses - PODS, memory=None if one.memory is None else one.memory - memory)
        for name, one in room.items()
    }


def told(directory: RunDirectory, within: float) -> tuple[Kept, list[Turn]]:
    """End the run's watch; what it has kept, and the run's turns so far.  Raises EnvironmentBroken."""
    answer = directory.shared / ANSWER
    (directory.shared / ENDS).touch()
    if not until(answer.exists, bool, within=within, every=NAP, description="the standing watch ends").converged:
        raise EnvironmentBroken(f"the standing watch did not end within {within:.0f} s; its process may be gone")
    lines = [line for path in sorted(directory.turns.glob("*.jsonl")) for line in path.read_text().splitlines()]
    return from_plain(Kept, json.loads(answer.read_text())), [
        Turn(
            test=turn["test"].rpartition("::")[2], began=turn["began"], ended=turn["released"],
            nodes=tuple({"node": turn["nodes"], "cluster": ["*"]}.get(turn["kind"], [])),
        )
        for turn in map(json.loads, lines)
    ]  # fmt: skip


class Watch:
    """One run's watch, in threads of its own."""

    def __init__(self, run: Run, kube: Kube) -> None:
        directory, facts = run.directory, run.facts
        assert directory is not None  # who has a cluster has one
        assert facts is not None
        self._run, self._kube, self._shared = run, kube, directory.shared
        self._settings = settings = replace(run.settings, worker=WATCH)
        self._timings = settings.timings
        placement, systems = (
            Placement(facts, settings.tolerations, cover=settings.cover),
            list[OS](["linux", "windows"]),
        )
        self._nodes = {
            f"{os}-{placement.number(node.name)}": node for os in systems if placement.coverage(os)
            for node in placement.covered(os)
        }  # fmt: skip
        self._changes = Changes(kube, Ownership(settings.run_id, WATCH, liveness.sign(directory.alive)))
        boots = {node.name: node.boot for node in facts.nodes if node.boot}
        self._lost = NodeWatch(kube, boots, directory.changed_node)
        self._pods = Pods(kube, self._changes, facts, settings, watch=self._lost)
        agents, of_node = settings.workers.agents, settings.workers.agents_per_windows_node
        self._prober = Prober(
            kube, self._shared, settings, watch=self._lost,
            transcript=ExecTranscript(directory.path / f"transcript-{WATCH}.txt").exec,
            limits=Limits(agents=agents, share=PODS * len(self._nodes), per_windows_node=of_node, share_of_node=PODS),
        )  # fmt: skip
        self._there: dict[str, Workload] = {}
        """Seat to its pod."""
        self._away: dict[str, str] = {}
        """Seat to why it has none."""
        self._ring: list[tuple[str, str]] = []
        self._paths: list[Watched] = []
        self._began = 0.0
        self._events: list[tuple[float, str]] = []
        self._unwatched: dict[str, str] = {}
        self._thread = threading.Thread(target=self._watch, name="standing watch", daemon=True)

    def begin(self) -> None:
        """Return at once."""
        self._thread.start()

    def end(self) -> None:
        """Remove its pods, unless they may stay."""
        (self._shared / ENDS).touch()
        self._thread.join(self._timings.windows.agent_hello)
        if not self._run.stays:
            self._pods.remove()

    def _watch(self) -> None:
        error = ""
        try:
            self._deploy()
            for kind in ("Pod", "Service"):
                threading.Thread(target=self._follow, args=[kind], name=f"watches {kind}", daemon=True).start()
            self._ask()
            self._unwatched |= {self._there[seat].node: why for seat, why in self._away.items()}
            self._unwatched |= self._lost.lost_among(node.name for node in self._nodes.values())
        except Exception as wrong:  # whoever decides by it must hear of any error
            error = f"{type(wrong).__name__}: {first_line(wrong)}"
        kept = Kept(
            began=self._began, ended=time.monotonic(), paths=tuple(self._paths), events=tuple(self._events),
            unwatched=self._unwatched, error=error,
        )  # fmt: skip
        fresh = self._shared / f"{ANSWER}.new"
        fresh.write_text(json.dumps(to_plain(kept)))
        fresh.replace(self._shared / ANSWER)
        self._prober.close()

    # --- pods ---------------------------------------------------------------------------------------------------------

    def _deploy(self) -> None:
        """Make the pods and their Services; a node without its pods is left out."""

        def on(number: str, node: NodeFacts) -> None:
            wishes = [
                Wish(role=f"{node.os}-client", node=node, name=f"{sort}-{number}", labels={"conformance/watch": sort})
                for sort in ("watched", "free")
            ]
            try:
                self._there |= self._pods.deploy(wishes)
            except SuiteError as error:
                self._unwatched[node.name] = first_line(error)

        self._pods.prepare(self._pods.namespace)
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(on, *zip(*self._nodes.items(), strict=True)))
        services = Services(self._changes, self, cluster_domain(self._kube))
        for pod in self._there.values():
            services.cluster_ip(pod)
        ring = [number for number, node in self._nodes.items() if node.name not in self._unwatched]
        if len(ring) < 2:
            raise EnvironmentBroken("; ".join(self._unwatched.values()) or "there is one covered node")
        self._ring = list(zip(ring, [*ring[1:], ring[0]], strict=True))
        self._connect(set(self._there))

    def seat_of(self, workload: Workload) -> str:
        """As Services ask."""
        return next(seat for seat, pod in self._there.items() if pod.uid == workload.uid)

    def _connect(self, seats: set[str]) -> None:
        """Begin to ask the paths of which one of these pods is an end."""
        for here, there in self._ring:
            watched, free, their, stranger = f"watched-{here}", f"free-{here}", f"watched-{there}", f"free-{there}"
            ends: dict[Way, tuple[str, str]] = {
                "in": (stranger, watched), "out": (watched, stranger), "allowed": (their, watched),
                "free": (stranger, free),
            }  # fmt: skip
            for way, two in ends.items():
                if seats & set(two) and not self._away.keys() & set(two):
                    source, target = self._there[two[0]], self._there[two[1]].tcp(ECHO_PORT)
                    patience = self._timings.of(source.os).tcp_give_up
                    attempt = Attempt(source=source, target=target, kind=plain(target), give_up_after=patience)
                    self._paths.append(Watched(node=self._there[watched].node, way=way, attempt=attempt))

    def _look(self) -> None:
        """Leave the paths of pods that have changed, and begin anew with those that took their places."""
        now = there_now(self._kube, self._there.values())
        for seat, pod in self._there.items():
            if seat not in self._away and (why := changed(pod, now.get((pod.namespace, pod.pod)))):
                self._away[seat] = why
                for path in self._paths:
                    if not path.gone and pod in path.ends:
                        path.gone = time.monotonic()
        ready = {obj["metadata"]["labels"].get(SEAT): obj for obj in now.values() if is_ready(obj)}
        if back := ready.keys() & self._away.keys():
            for seat in back:
                self._there[seat] = self._pods.workload(ready[seat], ROLES[self._there[seat].role])
                del self._away[seat]
            self._prober.revalidate()
            self._connect(back)

    # --- asking -------------------------------------------------------------------------------------------------------

    def _ask(self) -> None:
        """Until it is to end: first without policies, until all paths were open, then under them."""
        asking, under_way = self._prober.asking(), dict[int, tuple[Watched, float]]()
        begun = looked = time.monotonic()
        try:
            while not (self._shared / ENDS).exists():
                now = time.monotonic()
                if not self._began and (
                    all(p.before for p in self._paths) or now - begun > self._timings.windows.warm_up
                ):
                    self._close()
                if now - looked > LOOK:
                    looked = now
                    with contextlib.suppress(SuiteError):  # the API server may be away for a while
                        self._look()
                due = [
                    path for path in self._paths
                    if not path.gone and path.due <= now and not asking.waits(path.attempt.source.uid)
                ]  # fmt: skip
                for path, ticket in zip(due, asking.begin([path.attempt for path in due]), strict=True):
                    path.due, under_way[ticket] = now + self._timings.run.watch_every, (path, now)
                answer = asking.next(NAP)
                while answer is not None:
                    self._heard(*under_way.pop(answer.ticket), answer)
                    answer = asking.next(0)
        finally:
            asking.cancel()

    def _heard(self, path: Watched, asked: float, answer: Answered) -> None:
        if answer.observation is None:
            path.due = time.monotonic() + LOOK
        elif self._began and asked > self._began:
            path.heard(asked, answer.observation)
        else:
            path.before = path.before or answer.observation.verdict is Verdict.CONNECTED

    def _close(self) -> None:
        """Bring the policies into force."""
        settings, connection, facts = self._settings, self._run.connection, self._run.facts
        assert connection is not None  # there are pods
        assert facts is not None
        calico = CalicoApi(
            self._kube, self._changes, calicoctl=settings.calicoctl, context=connection.context,
            kubeconfig=Path(connection.kubeconfig) if connection.kubeconfig else None,
        )  # fmt: skip
        for name in ("kubernetes-in", "calico-out" if writes_calico_policies(facts, settings) else "kubernetes-out"):
            Policy(
                f"policy/watch/{name}.yaml", self._pods.namespace, self._changes, lambda: calico,
                removed_within=self._timings.linux.delete, attach=lambda title, text: None,
            ).apply()  # fmt: skip
        self._began = time.monotonic()

    def _follow(self, kind: str) -> None:
        """Keep when objects of a kind come and go, as far as the user may see that."""
        while not (self._shared / ENDS).exists():
            try:
                since = self._kube.objects_at("v1", kind)[1]
                for event in self._kube.watch("v1", kind, None, since, seconds=self._timings.run.watch):
                    meta, node = event["object"]["metadata"], (event["object"].get("spec") or {}).get("nodeName")
                    if happened := HAPPENED.get(event["type"]):
                        where = f" on node {node}" if node else ""
                        text = f"{kind} {meta['namespace']}/{meta['name']}{where} {happened}"
                        self._events.append((time.monotonic(), text))
            except ApiRefused:
                return
            except SuiteError:  # the API server may be away for a while
                continue
