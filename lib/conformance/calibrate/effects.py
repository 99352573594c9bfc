# SPDX-License-Identifier: Apache-2.0
"""Measures the time from a change of a policy, Service or name to its effect. The same changes
serve all nodes, operating systems and protocols."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from conformance.calibrate.scene import Scene
from conformance.errors import ProbeBroken
from conformance.kube import manifest
from conformance.kube.changes import reference
from conformance.model.attempt import Attempt, Kind
from conformance.model.endpoint import Workload
from conformance.model.observation import Observation, Verdict
from conformance.pods.groups import Group
from conformance.pods.roles import ECHO_PORT, MANIFESTS
from conformance.pods.services import Service, Services, cluster_domain
from conformance.pods.tailor import SEAT
from conformance.settings.assumptions import number

CHANGES = 15
"""The number of changes of policy, and of removals, including the denial in the step ``syn-again``.
Services are changed a fifth as often. This number is high enough to notice that a tenth of the
changes are slow, and low enough to take two minutes on a cluster that needs some seconds for each
change."""
GIVE_UP = 1.0
"""The time limit, in seconds, of an attempt that only serves to show when a path changes."""
EVERY = 1 / number("WIN-ATTEMPTS")
"""The pause, in seconds, between two attempts, if few paths are tried."""
POLICY: dict[str, Any] = {
    "apiVersion": "networking.k8s.io/v1",
    "kind": "NetworkPolicy",
    "metadata": {"name": "calibrate"},
    "spec": {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": []},
}
OPEN = (Verdict.CONNECTED, Verdict.RESOLVED)

Paths = Mapping[tuple[str, Workload], Attempt]
"""The attempts to make, keyed by the name of the measurement and the pod that is measured."""


def until_all(scene: Scene, paths: Paths, *, open_: bool, keep: bool = True) -> None:
    """Wait until each path is open (or closed), and record the seconds that this took."""
    since = time.time()
    asking = scene.prober.asking()
    end = time.monotonic() + min(90.0, scene.box.remaining)
    left = dict(paths)
    keys = {attempt: key for key, attempt in paths.items()}
    before: dict[Attempt, Observation] = {}
    again = 0.0
    while left and time.monotonic() < end:
        if time.monotonic() >= again:
            asking.begin(list(left.values()))
            again = time.monotonic() + EVERY
        if (answered := asking.next(max(0.01, again - time.monotonic()))) is None:
            continue
        if (observed := answered.observation) is None:
            asking.cancel()
            raise answered.error or ProbeBroken("an attempt ended without a result")
        at = _changed(before.get(observed.attempt), observed, open_=open_)
        before[observed.attempt] = observed
        if at and left.pop(keys[observed.attempt], None) and keep:
            scene.record.add(*keys[observed.attempt], "s", max(0.0, at - since))
    asking.cancel()
    for name, pod in left:
        seconds = time.time() - since
        why = f"no effect in {seconds:.0f} s" if seconds >= 1 else "no time was left"
        scene.record.lack(name, why, pod.node)


def _changed(before: Observation | None, observations: Observation, *, open_: bool) -> float | None:
    """Return the time (Unix seconds) at which a path opened (or closed), judged by its last two
    attempts. Return None if it has not changed yet.

    A path opens when an attempt is answered. A path closes when two attempts in a row get no
    answer; the first of them then began at the returned time.
    """
    if open_:
        return (
            (observations.began_at or observations.at) + observations.seconds
            if observations.verdict in OPEN
            else None
        )
    is_closed = before and {before.verdict, observations.verdict}.isdisjoint(OPEN)
    return before.began_at if before and is_closed else None


def _paths(scene: Scene, name: str) -> Paths:
    """Return the paths on which the effect of policy is measured: to the server of each node, if
    possible from a Linux client on another node."""
    return {
        (f"{name}/{kind.value}", server): Attempt(
            source=scene.pick(scene.clients, "linux", server),
            kind=kind,
            give_up_after=GIVE_UP,
            target=target,
        )
        for server in scene.servers
        for kind, target in ((Kind.TCP, server.tcp(ECHO_PORT)), (Kind.UDP, server.udp(ECHO_PORT)))
    }


def policy(scene: Scene) -> None:
    """Measure the time from the creation of a policy to its effect, and from its removal to the end
    of the effect."""
    until_all(scene, _paths(scene, "policy-effect"), open_=True, keep=False)
    enough = 2 / 3 * scene.box.remaining  # the rest is for the measurements that follow
    for done in range(CHANGES - 1):  # `network.syns` makes the last change
        if scene.box.remaining < enough:
            raise ProbeBroken(f"{done} of {CHANGES} changes were finished in time")
        denied(scene)


def denied(scene: Scene, work: Callable[[], object] = lambda: None) -> None:
    """Call ``work`` while a policy denies all traffic to the pods.

    Measure the time until the policy takes effect, and the time until its removal takes effect.
    """
    scene.changes.apply(POLICY, "it is measured", namespace=scene.pods.namespace)
    try:
        until_all(scene, _paths(scene, "policy-effect"), open_=False)
        work()
    finally:
        scene.changes.delete(reference(POLICY, scene.pods.namespace), "it was measured")
    until_all(scene, _paths(scene, "policy-removed"), open_=True)


def service(scene: Scene, name: str, server: Workload) -> Service:
    """Make a NodePort Service with a server as its only backend."""
    made = manifest.load(MANIFESTS / "services" / "node-port.yaml")[0]
    made["metadata"]["name"] = name
    made["spec"]["selector"] = {SEAT: scene.seat_of(server)}
    done = scene.changes.apply(made, "it is measured", namespace=server.namespace)
    of_cluster = Services(scene.changes, scene, cluster_domain(scene.kube))
    return of_cluster.read(done or made, Group([server]))


def services(scene: Scene) -> None:
    """Measure the time from the creation of a Service until its ClusterIP answers, and until its
    name resolves."""
    server = scene.pick(scene.servers, "linux")
    for place in range(CHANGES // 5):
        made = service(scene, f"calibrate-{place}", server)
        tcp = {("service-effect", c): (Kind.TCP, GIVE_UP, made.by_address) for c in scene.clients}
        dns = {("dns-effect", c): (Kind.DNS, 5.0, None) for c in scene.clients}
        until_all(
            scene,
            {
                (name, client): Attempt(
                    source=client,
                    kind=kind,
                    give_up_after=give_up,
                    target=target,
                    query="" if target else f"{made.full_name}.",
                )
                for (name, client), (kind, give_up, target) in {**tcp, **dns}.items()
            },
            open_=True,
        )
