# SPDX-License-Identifier: Apache-2.0
"""Measurements of starts and of probing: pods, execs, PowerShell, agents, attempts per second."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

from conformance.calibrate import hosts
from conformance.calibrate.scene import AT_ONCE, Scene
from conformance.kube.transcript import forget
from conformance.model.attempt import Attempt, Kind
from conformance.model.endpoint import Workload
from conformance.pods.roles import ECHO_PORT
from conformance.probe.agent import Agent
from conformance.probe.protocol import AGENTS, POWERSHELL
from conformance.timing import SYSTEM_CLOCK

PARTS = {"cold": 1, "warm": 1, "two": 2, "three": AT_ONCE}
"""The number of simultaneous starts in each step of a measurement."""
RATES = {5: 15, 10: 30, 20: 60, 40: 120}
"""The number of attempts at each rate (in attempts per second): each rate lasts 3 s. Each agent is
measured at one rate after the other."""


def pods(scene: Scene) -> None:
    """Read from pods and their events how long the pods took to start, and how long the pull of
    their images took."""

    def measure(pod: Workload) -> None:
        found = scene.pods.kube.get("v1", "Pod", pod.pod, pod.namespace)
        at = {
            event.get("reason"): event.get("firstTimestamp") or event.get("eventTime")
            for event in scene.changes.waits.events(found)
        }
        at |= {one["type"]: one["lastTransitionTime"] for one in found["status"]["conditions"]}
        when = {name: datetime.fromisoformat(text) for name, text in at.items() if text}
        if "Pulling" in when and "Pulled" in when:
            pulled = (when["Pulled"] - when["Pulling"]).total_seconds()
            scene.record.add("image-pull", pod, "s", pulled)
        begun = max(when["PodScheduled"], when.get("Pulled", when["PodScheduled"]))
        scene.record.add("pod-start", pod, "s", max(0.0, (when["Ready"] - begun).total_seconds()))

    scene.each("pod-start", [*scene.clients, *scene.servers], measure)


def execs(scene: Scene) -> None:
    """Measure the time that an exec itself takes, with a command that does nothing."""
    _starts(scene, "exec", scene.clients, lambda pod: scene.command(pod, "hostname").seconds)


def powershell(scene: Scene) -> None:
    """Measure how long PowerShell takes to start: the first start in a pod, the second start, and
    two and three starts at once."""
    _starts(
        scene,
        "powershell-start",
        [client for client in scene.clients if client.os == "windows"],
        lambda pod: scene.command(pod, *POWERSHELL, "-Command", "1").seconds,
    )


def agents(scene: Scene) -> None:
    """Measure the time until an agent's hello, and how many agents may start at once."""

    def start(client: Workload) -> float:
        begun = time.monotonic()
        agent = Agent(
            scene.pods.kube,
            client,
            forget,
            AGENTS[client.os],
            600.0,
            on_results=lambda results, when: None,
            on_broken=lambda attempts, error: None,
        )
        try:
            agent.greet(max(10.0, scene.box.remaining / 4))
            return time.monotonic() - begun
        finally:
            agent.close()

    _starts(scene, "agent-start", scene.clients, start)


def _starts(
    scene: Scene, name: str, clients: Sequence[Workload], start: Callable[[Workload], float]
) -> None:
    """Measure starts of one kind in each of these pods: single starts, and several starts at once.

    Meanwhile, Windows nodes report their own load.
    """

    def measure(client: Workload) -> None:
        took: dict[str, list[float]] = {}
        for part, count in PARTS.items():
            with ThreadPoolExecutor(count + 1) as pool:
                starting = [pool.submit(start, client) for _ in range(count)]
                if client.os == "windows" and part != "warm" and name != "exec":
                    pool.submit(hosts.read_one, scene, client.node, "load.ps1", f"{name}/{part}")
                took[part] = [one.result() for one in starting]
            scene.record.add(f"{name}/{part}", client, "s", *took[part])
        bound = max(1.0, 2 * took["warm"][0])  # starts up to this time count as undisturbed
        borne = max(PARTS[part] for part in PARTS if max(took[part]) <= bound)
        scene.record.add(f"at-once-{name}", client, "", borne)

    scene.each(name, clients, measure)


def rates(scene: Scene) -> None:
    """Measure how many attempts an agent can begin per second. The rate rises in steps until an
    attempt begins 0.5 s late."""

    def measure(client: Workload) -> None:
        target = scene.pick(scene.servers, "linux", client).tcp(ECHO_PORT)
        attempt = Attempt(source=client, kind=Kind.TCP, give_up_after=5.0, target=target)
        scene.prober.observe([attempt])  # this starts the client's agent
        borne = itertools.takewhile(lambda rate: _late(scene, attempt, rate) <= 0.5, RATES)
        scene.record.add("attempts-per-second", client, "1/s", max(borne, default=0))

    scene.each("attempts-per-second", scene.clients, measure)


def _late(scene: Scene, attempt: Attempt, rate: int) -> float:
    """Make attempts at this rate. Return the longest delay, in seconds, with which an attempt
    began. If an attempt did not connect, return the time limit of an attempt."""
    asking = scene.prober.asking()
    begun = time.monotonic()
    for number in range(RATES[rate]):
        asking.begin([attempt])
        SYSTEM_CLOCK.sleep(max(0.0, begun + (number + 1) / rate - time.monotonic()))
    end = time.monotonic() + 2 * attempt.give_up_after
    ended = [asking.next(max(0.0, end - time.monotonic())) for _ in range(RATES[rate])]
    asking.cancel()
    observed = [one.observation for one in ended if one and one.observation]
    began = [
        one.began_at - one.at for one in observed if one.began_at and one.verdict == "CONNECTED"
    ]
    late = max(began) if len(began) == len(ended) else attempt.give_up_after
    scene.record.add(f"attempt-late/{rate}", attempt.source, "s", late)
    return late
