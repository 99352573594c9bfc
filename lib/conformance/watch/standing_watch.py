# SPDX-License-Identifier: Apache-2.0
"""The standing watch of a run: it probes paths from the run's beginning to its end, in a process of
its own.

Each covered node has two small pods that no test touches, each behind a Service of its own.
Policies of both APIs select one of them, the watched pod. The other, the free pod, is in another
namespace. Kubernetes' policy lets only watched pods connect to watched pods; Calico's policy lets
watched pods connect only to watched pods. Denied paths are tried with TCP and with UDP; each TCP
attempt is long enough for its SYN to be repeated. The nodes form a ring, and each node is probed
from the next node. While the watch observes a denial on a node, no test has to observe it for
longer than its own decision needs (:mod:`conformance.expect.watches`). The free pods also query the
cluster's DNS and a Service; gaps in their answers are recorded.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

from conformance.enforcement.applied_objects import AppliedObjects
from conformance.enforcement.policy import Policy
from conformance.errors import SuiteError, first_line
from conformance.expect.subjects.standing_watch import BESIDE, Kept, Watched, Way
from conformance.expect.watches import turn_of
from conformance.foreign.policy_events import PolicyEvents
from conformance.kube.changes import Changes
from conformance.kube.client import Kube
from conformance.kube.ownership import WATCH
from conformance.model.attempt import Attempt, Kind, plain
from conformance.model.claim import ClaimVerdict
from conformance.model.codec import to_plain
from conformance.model.decision import Decision, Side
from conformance.model.endpoint import OS, SYSTEMS, Target, Workload
from conformance.model.observation import Verdict
from conformance.pods.deploy import Pods
from conformance.pods.nodes_lost import NodeWatch
from conformance.pods.placement import Placement
from conformance.pods.pod_changes import changed_among
from conformance.pods.roles import ECHO_PORT
from conformance.pods.services import Services, cluster_domain
from conformance.pods.worker_pods import WorkerPods
from conformance.probe.asking import Answered, Asking
from conformance.probe.prober import Limits, Prober
from conformance.run.directory import write_whole
from conformance.run.run import Run
from conformance.watch.result import ANSWER, ENDS, NAP

LOOK = 5.0
"""The pause, in seconds, between two checks whether the pods are still the same, and after an
attempt that broke."""
SIDES: dict[Way, Side] = {"in": "target", "out": "source"}
"""The end that enforces the policy of each denied direction."""

Pair = tuple[Workload, Workload]
"""The watched and the free pod of a node."""


def unasked(
    covered: Iterable[str], explained: Collection[str], paths: Iterable[Watched]
) -> dict[str, str]:
    """Map each covered node that was never probed and has no reason yet to a reason. A reason is
    needed since missing answers prove nothing."""
    known = {*explained, *(path.node for path in paths)}
    return {
        node: "the watch's pods on the node never existed, so they were not probed"
        for node in covered
        if node not in known
    }


class Watch:
    """The standing watch of a run, in threads of its own."""

    def __init__(self, run: Run, kube: Kube) -> None:
        directory = run.directory
        facts = run.facts
        assert directory is not None and facts is not None  # noqa: PT018 - there are tests to run
        self._run = run
        self._kube = kube
        self._directory = directory
        settings = replace(run.settings, worker=WATCH)
        self._timings = settings.timings
        bounds = settings.workers
        self._changes = Changes(kube, run.ownership(WATCH))
        lost = NodeWatch(kube, facts.nodes, directory.changed_node, tolerated=settings.tolerations)
        placement = Placement(facts, settings.tolerations, cover=settings.cover)
        self._systems = [os for os in SYSTEMS if placement.coverage(os)]
        self._covered = [item.node.name for os in SYSTEMS for item in placement.coverage(os)]
        self._deployer = Pods(kube, self._changes, facts, settings, watch=lost)
        self._pods = WorkerPods(self._deployer, placement)
        self._pods.systems = ()  # of the demo's pods, the watch starts only clients
        self._unwatched: dict[str, str] = {}
        """Nodes that have no pods now, each with the reason."""
        self._explained: set[str] = set()
        """Nodes with pods for which a reason was given at any time."""
        self._prober = Prober(
            kube,
            directory.shared,
            settings,
            watch=lost,
            limits=Limits(
                powershell_starts=bounds.powershell_starts,
                agents=bounds.agents,
                per_windows_node=bounds.agents_per_windows_node,
            ),
        )
        self._domain = ""
        self._services: Services | None = None
        self._paths: list[Watched] = []
        self._turns: set[str] = set()
        """The denials that the watch has reserved for itself, so that no test needs to watch them.
        """
        self._began = 0.0
        """The time when the policies were accepted."""
        self._end_asked = 0.0
        """The time when the watch was first asked to end; 0: nobody has asked yet."""
        self._over = False
        self._events = PolicyEvents(
            kube,
            self._changes.run,
            self._deployer.namespace,
            is_over=lambda: self._over,
            seconds=self._timings.run.watch,
        )
        self._thread = threading.Thread(target=self._watch, name="standing watch", daemon=True)

    def begin(self) -> None:
        """Start the watch; return at once."""
        self._thread.start()

    def end(self) -> None:
        """Remove the watch's pods, unless they may stay. The run's own cleanup comes next, and
        names pods that could not be removed."""
        self._over = True  # from now on, the watch creates no namespace
        self._thread.join(self._timings.windows.agent_hello)
        with contextlib.suppress(SuiteError):
            if not self._run.stays:
                self._deployer.remove()

    def _watch(self) -> None:
        error = ""
        try:
            self._domain = cluster_domain(self._kube)
            self._services = Services(self._changes, self._pods, self._domain)
            self._connect(self._look())
            for pod in {end.uid: end for path in self._paths for end in path.ends}.values():
                self._services.cluster_ip(pod)
            for served in self._events.kinds():
                threading.Thread(
                    target=self._events.follow,
                    args=served,
                    name=f"watches {served[1]}",
                    daemon=True,
                ).start()
            self._ask()
            self._look()  # pods that a test has just removed may be back
        except Exception as wrong:  # the test that judges the watch must know of any error
            error = f"{type(wrong).__name__}: {first_line(wrong)}"
            for turn in self._turns:
                self._directory.give_back(turn)
        kept = Kept(
            began=self._began,
            ended=time.monotonic(),
            paths=tuple(self._paths),
            events=tuple(self._events.events),
            foreign=tuple(self._events.edits),
            error=error,
            unwatched=unasked(self._covered, self._explained, self._paths) | self._unwatched,
        )
        write_whole(self._directory.shared / ANSWER, to_plain(kept))
        self._prober.close()
        self._directory.write(self._directory.probing, WATCH, to_plain(self._prober.used()))
        self._pods.close()

    def _look(self) -> list[Pair]:
        """Return the pods of each node as they are now; wait for the successors of lost pods.

        Pods that have changed are not probed any more: their addresses may soon belong to other
        pods.
        """
        changed = changed_among(
            self._kube, {end for path in self._paths if not path.gone for end in path.ends}
        )
        now = time.monotonic()
        for path in self._paths:
            path.gone = path.gone or (now if any(end.uid in changed for end in path.ends) else 0.0)
        unwatched: dict[str, str] = {}

        def keep(decisions: Iterable[Decision]) -> None:
            for item in decisions:
                self._explained.add(item.target)
                if item.verdict is ClaimVerdict.INCONCLUSIVE:
                    unwatched[item.target] = item.reason

        self._pods.keep = keep
        self._pods.refresh()
        free = {pod.node: pod for pod in self._running(self._pods.elsewhere)}
        watched = self._running(self._pods.clients)
        self._unwatched = unwatched
        return [(pod, free[pod.node]) for pod in watched if pod.node in free]

    def _running(self, group: Callable[[OS], Iterable[Workload]]) -> list[Workload]:
        """Return the pods of a group that exist. The function ``keep`` (see :meth:`_look`) has
        already received the reasons for missing pods."""
        found: list[Workload] = []
        for os in self._systems:
            with contextlib.suppress(SuiteError):
                found += () if self._over else group(os)
        return found

    def _connect(self, pairs: list[Pair]) -> None:
        """Probe the paths between these pods from now on, and no others."""
        former = {
            (path.way, path.protocol, *(end.uid for end in path.ends)): path
            for path in self._paths
            if not path.gone
        }
        for (watched, free), (peer, stranger) in zip(pairs, [*pairs[1:], *pairs[:1]], strict=True):
            tcp: dict[Way, tuple[Workload, Target]] = {
                "in": (stranger, watched.tcp(ECHO_PORT)),
                "out": (watched, stranger.tcp(ECHO_PORT)),
                "allowed": (peer, watched.tcp(ECHO_PORT)),
                "free": (stranger, free.tcp(ECHO_PORT)),
            }
            udp: dict[Way, tuple[Workload, Target]] = {
                "in": (stranger, watched.udp(ECHO_PORT)),
                "out": (watched, stranger.udp(ECHO_PORT)),
            }
            for way, (source, target) in [*tcp.items(), *udp.items()]:
                (pod,) = target.backends
                path = former.pop((way, target.protocol, source.uid, pod.uid), None)
                if path is None and source.uid != pod.uid:
                    self._paths.append(self._new_path(watched.node, way, source, target))
            self._beside(former, free, stranger)
        for path in former.values():
            path.gone = time.monotonic()

    def _beside(
        self, former: dict[tuple[str, ...], Watched], free: Workload, stranger: Workload
    ) -> None:
        """Watch two more paths of a node's free pod: to DNS, and to the Service of the free pod of
        the next node."""
        assert self._services is not None
        patience = self._timings.of(free.os)
        if former.pop(("dns", "", free.uid), None) is None:
            question = Attempt(
                source=free,
                kind=Kind.DNS,
                query=f"kubernetes.default.svc.{self._domain}",
                give_up_after=patience.dns_give_up,
            )
            began = time.monotonic()
            self._paths.append(Watched(node=free.node, way="dns", attempt=question, since=began))
        known = former.pop(("service", "tcp", free.uid, stranger.uid), None)
        if known is None and free.uid != stranger.uid:
            target = self._services.by_address(stranger)
            self._paths.append(self._new_path(free.node, "service", free, target))

    def _new_path(self, node: str, way: Way, source: Workload, target: Target) -> Watched:
        timings = self._timings.of(source.os)
        patience = timings.tcp_give_up
        if way in SIDES and target.protocol == "tcp":
            patience = max(patience, timings.syn_repeated)
        attempt = Attempt(source=source, target=target, kind=plain(target), give_up_after=patience)
        return Watched(node=node, way=way, attempt=attempt, since=time.monotonic())

    def _ask(self) -> None:
        """Probe until the watch should end: without policies until all paths were open, then under
        the policies."""
        asking = self._prober.asking()
        under_way = dict[int, tuple[Watched, float]]()
        looking = ThreadPoolExecutor(1)
        look: Future[list[Pair]] | None = None
        begun = looked = time.monotonic()
        try:
            while not self._over:
                now = time.monotonic()
                if self._is_to_end(now):
                    return
                is_open = all(path.before for path in self._paths if path.way not in BESIDE)
                if not self._began and (is_open or now - begun > self._timings.windows.warm_up):
                    self._close_paths()
                if now - looked > LOOK and (look is None or look.done()):
                    # a pod is missing, or the API server does not answer
                    with contextlib.suppress(SuiteError):
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
                    self._receive(*under_way.pop(answer.ticket), answer)
                    answer = asking.next(0)
        finally:
            asking.cancel()
            looking.shutdown(wait=False)

    def _due(self, asking: Asking, now: float) -> list[Watched]:
        """Return the paths that are due to be probed."""
        due = (path for path in self._paths if path.due <= now and not path.gone)
        return [path for path in due if not asking.waits(path.attempt.source.uid)]

    def _is_to_end(self, now: float) -> bool:
        """Return whether the watch is to end: it was asked to end, and has observed its policies
        for the least time. If a path that should be closed is open, the watch goes on until the
        path's policy must be in force again."""
        least = max(self._timings.run.watch_least, self._timings.run.denial_watch)
        has_lasted = bool(self._began) and now - self._began > least
        if not has_lasted or not (self._directory.shared / ENDS).exists():
            return False
        self._end_asked = self._end_asked or now
        effect = max(self._timings.of(os).policy_effect for os in SYSTEMS)
        is_over = now - self._end_asked > effect + 2 * self._timings.run.watch_every
        return is_over or not any(
            path.stretches[-1].open
            for path in self._paths
            if path.way in SIDES and path.stretches and not path.gone
        )

    def _receive(self, path: Watched, asked: float, answer: Answered) -> None:
        if answer.observation is None:
            path.due = time.monotonic() + LOOK
        elif self._began and asked > self._began:
            path.record(asked, answer.observation)
        else:
            path.before = path.before or answer.observation.verdict is Verdict.CONNECTED

    def _take_turns(self) -> None:
        """Take the turns of denials that the watch observes, or may observe soon, so that no test
        needs to watch them. Give back the turns of all other denials."""
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

    def _close_paths(self) -> None:
        """Bring the policies into force."""
        calico = self._run.calico_api(self._kube, self._changes)
        out = "calico-out" if self._run.writes_calico_policies else "kubernetes-out"
        for name in ("kubernetes-in", out):
            applied = AppliedObjects(self._changes, lambda: calico, self._timings.linux.delete)
            Policy(
                f"policy/watch/{name}.yaml",
                self._deployer.namespace,
                applied,
                attach=lambda title, text: None,
            ).apply()
        self._began = time.monotonic()
