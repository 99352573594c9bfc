"""Asks the paths of the standing watch from a run's beginning to its end, in the process that holds the run.

On each covered node stand two small pods that no test touches, each behind a Service of its own: a watched one, which
policies of both APIs select, and a free one in another namespace.  The watched are entered by the watched alone
(Kubernetes' policy), and enter these alone (Calico's); what is denied is asked by TCP and by UDP, with patience for
SYNs that are sent again.  The nodes are a ring, and each is asked from the next one.  What a node was seen to deny here
no test watches for longer than it needs (:mod:`conformance.expect.watches`).
"""

import contextlib
import json
import threading
import time
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import Any

from conformance.errors import EnvironmentBroken, SuiteError, first_line
from conformance.expect.engine.answered import plain
from conformance.expect.subjects.standing_watch import Edit, Kept, Watched, Way
from conformance.expect.watches import turn_of
from conformance.facts.calico_api import CalicoApi
from conformance.journal import liveness
from conformance.kube.changes import Changes
from conformance.kube.client import Kube, Obj
from conformance.kube.ownership import WATCH, Ownership
from conformance.kube.reach import ApiGone
from conformance.kube.refused import ApiRefused, ApiUnreachable
from conformance.model.attempt import Attempt
from conformance.model.claim import ClaimVerdict
from conformance.model.codec import from_plain, to_plain
from conformance.model.decision import Decision, Side
from conformance.model.endpoint import OS, SYSTEMS, Workload
from conformance.model.observation import Verdict
from conformance.pods.deploy import Pods, changed_among
from conformance.pods.nodes_lost import NodeWatch
from conformance.pods.placement import Placement
from conformance.pods.roles import ECHO_PORT
from conformance.pods.services import Services, cluster_domain
from conformance.pods.worker_pods import WorkerPods
from conformance.probe.asking import Answered, Asking
from conformance.probe.prober import Limits, Prober
from conformance.run.directory import BEGUN, RunDirectory, write_whole
from conformance.run.plan import writes_calico_policies
from conformance.run.policies import Policy
from conformance.run.policies_there import (
    CALICO,
    KUBERNETES,
    TWINS,
    admin_kinds,
    as_told,
    calico_api,
)
from conformance.run.run import Run
from conformance.settings import Timings
from conformance.timing import until

NAP = 0.1
"""s.  Longest wait for an answer before looking whether something is due."""
LOOK = 5.0
"""s.  Between two looks whether the pods are still what they were, and after an attempt that broke."""
ENDS = "watch-ends"
ANSWER = "watch.json"
"""Files that the run's processes share: one asks the watch to end, the other has what it has kept then."""
HAPPENED = {"ADDED": "came", "MODIFIED": "changed", "DELETED": "went"}
SIDES: dict[Way, Side] = {"in": "target", "out": "source"}
"""What is denied, to where its policy is enforced."""
NOTHING = "metadata.name=no-such-object"
"""Selects nothing: what is asked for is the version to follow from."""


def told(directory: RunDirectory, timings: Timings) -> tuple[Kept, list[dict[str, Any]]]:
    """End the run's watch; what it has kept, and the run's turns so far.  Raises EnvironmentBroken."""
    answer = directory.shared / ANSWER
    pods = timings.windows
    run = timings.run
    within = pods.image_pull + pods.pod_ready + pods.warm_up + pods.agent_slot
    within += max(run.watch_least, run.denial_watch)
    (directory.shared / ENDS).touch()
    if not until(
        answer.exists, bool, within=within, every=NAP, description="the standing watch ends"
    ).converged:
        raise EnvironmentBroken(
            f"the standing watch did not end within {within:.0f} s; its process may be gone"
        )
    return from_plain(Kept, json.loads(answer.read_text())), turns(directory)


def turns(directory: RunDirectory) -> list[dict[str, Any]]:
    """The turns of the run that have ended, and those of processes that died in one: these last until now."""

    def read(pattern: str) -> list[dict[str, Any]]:
        paths = sorted(directory.turns.glob(pattern))
        return [json.loads(line) for path in paths for line in path.read_text().splitlines()]

    ended = read("*.jsonl")
    now = time.monotonic()
    known = {(turn["test"], turn["worker"], turn["began"]) for turn in ended}
    begun = [
        turn
        for turn in read(f"*{BEGUN}")
        if (turn["test"], turn["worker"], turn["began"]) not in known
    ]
    return [*ended, *(turn | {"released": now} for turn in begun)]


def unasked(
    covered: Iterable[str], told: Collection[str], paths: Iterable[Watched]
) -> dict[str, str]:
    """Covered nodes of which nothing was asked and nobody told why (``told``), with that: silence is no statement."""
    known = {*told, *(path.node for path in paths)}
    return {node: "its pods were never there to be asked" for node in covered if node not in known}


class Watch:
    """One run's watch, in threads of its own."""

    def __init__(self, run: Run, kube: Kube) -> None:
        directory = run.directory
        facts = run.facts
        assert directory is not None and facts is not None  # noqa: PT018 - there are tests to run
        self._run = run
        self._kube = kube
        self._directory = directory
        self._shared = directory.shared
        settings = replace(run.settings, worker=WATCH)
        self._timings = settings.timings
        bounds = settings.workers
        process = liveness.sign(directory.alive)
        changes = self._changes = Changes(
            kube, Ownership(settings.run_id, WATCH, process, settings.namespaces_prefix)
        )
        lost = NodeWatch(kube, facts.nodes, directory.changed_node, tolerated=settings.tolerations)
        placement = Placement(facts, settings.tolerations, cover=settings.cover)
        self._systems = [os for os in SYSTEMS if placement.coverage(os)]
        self._covered = [item.node.name for os in SYSTEMS for item in placement.coverage(os)]
        self._deployer = Pods(kube, changes, facts, settings, watch=lost)
        self._pods = WorkerPods(self._deployer, placement)
        self._pods.systems = ()  # of the demo's pods its clients alone
        self._unwatched: dict[str, str] = {}
        self._told: set[str] = set()
        self._prober = Prober(
            kube,
            self._shared,
            settings,
            watch=lost,
            limits=Limits(agents=bounds.agents, per_windows_node=bounds.agents_per_windows_node),
        )
        self._out = "calico-out" if writes_calico_policies(facts, settings) else "kubernetes-out"
        self._paths: list[Watched] = []
        self._turns: set[str] = set()
        """Denials that no test need watch."""
        self._least = max(self._timings.run.watch_least, self._timings.run.denial_watch)
        self._events: list[tuple[float, str]] = []
        self._foreign: list[Edit] = []
        self._policies_there: dict[str, tuple[str, Obj]] = {}
        """Those of others, by uid, each with its kind."""
        self._began = 0.0
        self._over = False
        self._thread = threading.Thread(target=self._watch, name="standing watch", daemon=True)

    def begin(self) -> None:
        """Return at once."""
        self._thread.start()

    def end(self) -> None:
        """Remove its pods, unless they may stay."""
        self._over = True  # from now on it makes no namespace
        self._thread.join(self._timings.windows.agent_hello)
        if not self._run.stays:
            self._deployer.remove()

    def _watch(self) -> None:
        error = ""
        try:
            self._connect(self._look())
            services = Services(self._changes, self._pods, cluster_domain(self._kube))
            for pod in {end.uid: end for path in self._paths for end in path.ends}.values():
                services.cluster_ip(pod)
            for api, kind in (("v1", "Pod"), ("v1", "Service"), *self._policies()):
                threading.Thread(
                    target=self._follow, args=[api, kind], name=f"watches {kind}", daemon=True
                ).start()
            self._ask()
            self._look()  # what a test has taken away just before may come back
        except Exception as wrong:  # whoever decides by it must hear of any error
            error = f"{type(wrong).__name__}: {first_line(wrong)}"
            for turn in self._turns:
                self._directory.give_back(turn)
        kept = Kept(
            began=self._began,
            ended=time.monotonic(),
            paths=tuple(self._paths),
            events=tuple(self._events),
            foreign=tuple(self._foreign),
            error=error,
            unwatched=unasked(self._covered, self._told, self._paths) | self._unwatched,
        )
        write_whole(self._shared / ANSWER, to_plain(kept))
        self._prober.close()
        self._directory.write(self._directory.probing, WATCH, to_plain(self._prober.used()))
        self._pods.close()

    def _look(self) -> list[tuple[Workload, Workload]]:
        """The watched and the free pod of each node, as they are now; waits for what takes others' places.

        Of those that are no longer what they were nothing is asked from now on: their addresses may be others' soon.
        """
        changed = changed_among(
            self._kube, {end for path in self._paths if not path.gone for end in path.ends}
        )
        for path in self._paths:
            path.gone = path.gone or (
                time.monotonic() if {end.uid for end in path.ends} & set(changed) else 0.0
            )
        unwatched: dict[str, str] = {}

        def keep(seen: Iterable[Decision]) -> None:
            self._told.update(one.target for one in seen)
            unwatched.update(
                {one.target: one.reason for one in seen if one.verdict is ClaimVerdict.INCONCLUSIVE}
            )

        self._pods.keep = keep
        self._pods.refresh()
        free = {
            pod.node: pod for os in self._systems for pod in self._there(self._pods.elsewhere, os)
        }
        found = [
            pod
            for os in self._systems
            for pod in self._there(self._pods.clients, os)
            if pod.node in free
        ]
        self._unwatched = unwatched
        return [(pod, free[pod.node]) for pod in found]

    def _there(self, ask: Callable[[OS], Iterable[Workload]], os: OS) -> Iterable[Workload]:
        """The pods that are there; why others are not was told of each node."""
        try:
            return () if self._over else ask(os)
        except SuiteError:
            return ()

    def _connect(self, pods: list[tuple[Workload, Workload]]) -> None:
        """Ask the paths between these pods from now on, and those of no other."""
        there = {
            (path.way, path.protocol, *(end.uid for end in path.ends)): path
            for path in self._paths
            if not path.gone
        }
        for (watched, free), (their, stranger) in zip(pods, [*pods[1:], *pods[:1]], strict=True):
            ends: dict[Way, tuple[Workload, Workload]] = {
                "in": (stranger, watched),
                "out": (watched, stranger),
                "allowed": (their, watched),
                "free": (stranger, free),
            }
            asked = [(way, pod.tcp(ECHO_PORT)) for way, (_, pod) in ends.items()]
            asked += [
                (way, pod.udp(ECHO_PORT)) for way, (_, pod) in ends.items() if way in ("in", "out")
            ]
            for way, target in asked:
                source, pod = ends[way]
                if (
                    there.pop((way, target.protocol, source.uid, pod.uid), None) is None
                    and source.uid != pod.uid
                ):
                    timings = self._timings.of(source.os)
                    patience = timings.tcp_give_up
                    if way in SIDES and target.protocol == "tcp":
                        patience = max(patience, timings.syn_repeated)
                    attempt = Attempt(
                        source=source, target=target, kind=plain(target), give_up_after=patience
                    )
                    self._paths.append(
                        Watched(node=watched.node, way=way, attempt=attempt, since=time.monotonic())
                    )
        for path in there.values():
            path.gone = time.monotonic()

    def _ask(self) -> None:
        """Until it is to end: first without policies, until all paths were open, then under them."""
        asking = self._prober.asking()
        under_way = dict[int, tuple[Watched, float]]()
        looking = ThreadPoolExecutor(1)
        look: Future[list[tuple[Workload, Workload]]] | None = None
        begun = looked = time.monotonic()
        try:
            while not self._over:
                now = time.monotonic()
                if self._is_to_end(now):
                    return
                if not self._began and (
                    all(one.before for one in self._paths)
                    or now - begun > self._timings.windows.warm_up
                ):
                    self._close()
                if now - looked > LOOK and (look is None or look.done()):
                    with contextlib.suppress(SuiteError):  # no pod, or the API server is away
                        self._connect(look.result() if look else self._look())
                    looked = now
                    look = looking.submit(self._look)
                self._take_turns()
                due = self._due(asking, now)
                tickets = asking.begin([path.attempt for path in due])
                for path, ticket in zip(due, tickets, strict=True):
                    path.due = now + self._timings.run.watch_every
                    under_way[ticket] = (path, now)
                answer = asking.next(NAP)
                while answer is not None:
                    self._heard(*under_way.pop(answer.ticket), answer)
                    answer = asking.next(0)
        finally:
            asking.cancel()
            looking.shutdown(wait=False)

    def _due(self, asking: Asking, now: float) -> list[Watched]:
        """The paths that are to be asked now."""
        due = (path for path in self._paths if path.due <= now and not path.gone)
        return [path for path in due if not asking.waits(path.attempt.source.uid)]

    def _is_to_end(self, now: float) -> bool:
        """Whether the watch was asked to end, after the least time under its policies."""
        has_lasted = bool(self._began) and now - self._began > self._least
        return has_lasted and (self._shared / ENDS).exists()

    def _heard(self, path: Watched, asked: float, answer: Answered) -> None:
        if answer.observation is None:
            path.due = time.monotonic() + LOOK
        elif self._began and asked > self._began:
            path.heard(asked, answer.observation)
        else:
            path.before = path.before or answer.observation.verdict is Verdict.CONNECTED

    def _take_turns(self) -> None:
        """Spare tests what is watched here, from the first and while its denial is seen, or may be soon."""
        here = {turn_of(SIDES[path.way], path.node) for path in self._paths if self._watches(path)}
        for turn in self._turns - here:
            self._directory.give_back(turn)
        self._turns &= here
        self._turns |= {turn for turn in here - self._turns if self._directory.take(turn)}

    def _watches(self, path: Watched) -> bool:
        if path.gone or path.way not in SIDES or path.protocol != "tcp":
            return False
        patience = self._timings.of(path.attempt.source.os)
        soon = max(path.since, self._began) + patience.policy_effect + 2 * patience.syn_repeated
        return path.shows(open=False) or not self._began or time.monotonic() < soon

    def _close(self) -> None:
        """Bring the policies into force."""
        told = self._run.settings
        connection = self._run.connection
        calico = CalicoApi(
            self._kube,
            self._changes,
            calicoctl=told.calicoctl,
            context=connection.context if connection else None,
            kubeconfig=Path(connection.kubeconfig)
            if connection and connection.kubeconfig
            else None,
        )
        for name in ("kubernetes-in", self._out):
            Policy(
                f"policy/watch/{name}.yaml",
                self._deployer.namespace,
                self._changes,
                lambda: calico,
                removed_within=self._timings.linux.delete,
                attach=lambda title, text: None,
            ).apply()
        self._began = time.monotonic()

    def _policies(self) -> list[tuple[str, str]]:
        """API and kind of policies that are served, and of what changes what they mean."""
        kinds = ("GlobalNetworkPolicy", "NetworkPolicy", "Tier")
        calico = calico_api(self._kube)
        served = {kind: (api, kind) for api, kind in reversed(admin_kinds(self._kube))}
        return [
            (KUBERNETES, "NetworkPolicy"),
            *((calico, kind) for kind in kinds if calico),
            *served.values(),
        ]

    def _follow(self, api: str, kind: str) -> None:
        """Keep when objects of a kind come and go, as far as the user may see that; of policies those of others."""
        since = ""
        while not self._over:
            try:
                if not since:
                    policies = kind.endswith("Policy")
                    there, since = self._kube.objects_at(
                        api, kind, fields="" if policies else NOTHING
                    )
                    self._policies_there |= {one["metadata"]["uid"]: (kind, one) for one in there}
                for event in self._kube.watch(
                    api, kind, None, since, seconds=self._timings.run.watch
                ):
                    meta = event["object"]["metadata"]
                    since = meta.get("resourceVersion") or since
                    if happened := HAPPENED.get(event["type"]):
                        self._note(api, kind, event["object"], happened)
            except ApiRefused as refused:
                if refused.code != HTTPStatus.GONE and not refused.passing:
                    return
                since = ""
            except ApiGone:
                return
            except ApiUnreachable:  # for a while
                continue

    def _note(self, api: str, kind: str, obj: Obj, happened: str) -> None:
        meta = obj["metadata"]
        name = "/".join(filter(None, (meta.get("namespace"), meta["name"])))
        node = (obj.get("spec") or {}).get("nodeName")
        text = f"{kind} {name}{f' on node {node}' if node else ''} {happened}"
        if kind == "Tier":
            there = list(self._policies_there.values())
            self._edited(
                api, text, [one for one in there if (one[1].get("spec") or {}).get("tier") == name]
            )
        elif kind.endswith("Policy"):
            known = self._policies_there.pop(meta["uid"], None)
            gone = happened == HAPPENED["DELETED"]
            if not gone:
                self._policies_there[meta["uid"]] = (kind, obj)
            self._edited(api, text, [one for one in (known, (kind, obj)) if one])
            if gone or (known and known[1].get("spec") != obj.get("spec")):
                self._note_meddling(obj, text)
        elif happened != HAPPENED["MODIFIED"]:
            self._events.append((time.monotonic(), text))

    def _note_meddling(self, policy: Obj, text: str) -> None:
        """Keep that somebody edited or deleted a policy, if it is the watch's own."""
        namespace = str(policy["metadata"].get("namespace"))
        home = namespace.startswith(self._deployer.namespace)
        if home and self._changes.run.owns(policy) and not self._over:
            edit = Edit(at=time.monotonic(), what=f"{text} by somebody's doing", policies=())
            self._foreign.append(edit)

    def _edited(self, api: str, text: str, policies: Iterable[tuple[str, Obj]]) -> None:
        ours = self._deployer.namespace
        own = self._changes.run.owns
        told = [
            as_told(self._kube, api, kind, obj)
            for kind, obj in policies
            if not own(obj)
            and not (api in CALICO and obj["metadata"]["name"].startswith(TWINS))
            and str(obj["metadata"].get("namespace") or ours).startswith(ours)
        ]
        self._foreign += (
            [Edit(at=time.monotonic(), what=text, policies=tuple(told))] if told else []
        )
