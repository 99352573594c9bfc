# SPDX-License-Identifier: Apache-2.0
"""Measurements of the network from pods: results at closed and open ports, MTU, sources, repeated
SYNs, http.sys."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime

from conformance.calibrate.effects import denied, service, until_all
from conformance.calibrate.scene import Scene
from conformance.errors import ProbeBroken
from conformance.evidence import packets
from conformance.kube.transcript import forget
from conformance.model.attempt import Attempt, Kind
from conformance.model.endpoint import SYSTEMS, Target, Workload
from conformance.model.observation import Verdict
from conformance.pods.roles import ECHO_PORT, MANIFESTS
from conformance.probe import golden
from conformance.timing import SYSTEM_CLOCK

PATIENT = 10.0
"""The time limit, in seconds, of an attempt that is expected to end earlier, for another reason
than this limit."""
TIME_OUT = 24.0
"""Seconds until Windows itself ends an attempt: it sends SYNs at 0, 3 and 9 s, and waits 12 s
more."""
SIZES = (*range(1280, 1502), 4000, 8900, 8940, 8950, 8951, 9000, 9001)
"""Sizes in bytes of the packets to send, 40 of them at once."""
VXLAN_PORT = 4789
PORTS = {
    "tcp-closed": (Kind.TCP, 9),
    "udp-closed": (Kind.UDP, 9),
    "udp-open": (Kind.UDP, ECHO_PORT),
}
"""The ports and protocols that clients try. No server listens on port 9 (discard)."""


def _try(client: Workload, kind: Kind, host: Workload | Target, port: int = 0) -> Attempt:
    return Attempt(
        source=client,
        kind=kind,
        give_up_after=PATIENT,
        target=host.tcp(port) if isinstance(host, Workload) else host,
    )


def _keep(scene: Scene, asked: Mapping[str, Attempt]) -> None:
    """Make attempts. Record each result in the node's own wording, and how long the attempt took.

    If an attempt times out, the node's own wording is known only if the attempt waits for the
    node's own time-out.
    """
    for name, observed in zip(asked, scene.prober.observe(list(asked.values())), strict=True):
        is_named = (
            observed.verdict not in (Verdict.CONNECTED, Verdict.TIMED_OUT)
            or observed.attempt.give_up_after == TIME_OUT
        )
        words = f"{observed.verdict.value} {observed.detail if is_named else ''}".strip()
        scene.record.add(name, observed.attempt.source, "", words)
        scene.record.add(
            name.replace("/", "-seconds/"), observed.attempt.source, "s", observed.seconds
        )


def errors(scene: Scene) -> None:
    """Measure how attempts at closed and open ports end, and how a connection ends that the peer
    resets."""
    pod = scene.pick(scene.servers, "linux")
    with golden.serving(scene.kube, pod, scene.settings.timings.linux, forget) as there:

        def measure(client: Workload) -> None:
            asked = {
                f"{name}/{system}": _try(
                    client, kind, scene.pick(scene.servers, system, client), port
                )
                for system in SYSTEMS
                for name, (kind, port) in PORTS.items()
            }
            asked["reset/linux"] = _try(client, Kind.HTTP, pod, there.ports["$RESETTING"])
            _keep(scene, asked)

        scene.each("errors", scene.clients, measure)


def mtu(scene: Scene) -> None:
    """Measure the size of the largest IPv4 packet that passes unfragmented between pods of two
    nodes."""

    def measure(client: Workload) -> None:
        for system in SYSTEMS:
            server = scene.pick(scene.servers, system, client)
            one = replace(
                _try(client, Kind.UDP, server.udp(ECHO_PORT)), whole=True, give_up_after=2.0
            )
            best = 0
            while passed := _passing(scene, one, [size for size in SIZES if size > best]):
                best = max(passed)
            if server.node != client.node:
                scene.record.add(f"mtu/{system}", client, "bytes", best)

    scene.each("mtu", scene.clients, measure)


def _passing(scene: Scene, one: Attempt, sizes: Sequence[int]) -> list[int]:
    """Return which of the first 40 sizes pass. The caller tries lost sizes again, together with the
    remaining sizes."""
    # without the headers of IPv4 and UDP
    tries = [replace(one, payload=size - 28) for size in sizes[:40]]
    observed = scene.prober.observe(tries)
    return [s for s, o in zip(sizes, observed, strict=False) if o.verdict is Verdict.CONNECTED]


def sources(scene: Scene) -> None:
    """Measure which source address the server of each node receives if the client uses the pod's
    address, the ClusterIP, or the NodePort at the server's node. Values are in the order of the
    servers' nodes."""
    for server in sorted(scene.servers, key=scene.seat_of):
        made = service(scene, f"calibrate-{scene.seat_of(server)}", server)
        ways = {
            "pod": server.tcp(ECHO_PORT),
            "cluster-ip": made.by_address,
            "node-port": made.on(server),
        }
        tries = {(w, c): _try(c, Kind.HTTP, to) for w, to in ways.items() for c in scene.clients}
        until_all(scene, tries, open_=True, keep=False)
        for ((way, client), _), observed in zip(
            tries.items(), scene.prober.observe(list(tries.values())), strict=True
        ):
            known = {
                client.address: "own",
                client.node_address: "client's node",
                server.node_address: "server's node",
            }
            where = "same-node" if client.node == server.node else "other-node"
            source = (
                known.get(observed.seen_client, "another")
                if observed.seen_client
                else observed.verdict
            )
            scene.record.add(f"source-{way}/{server.os}-{where}", client, "", str(source))


def syns(scene: Scene) -> None:
    """Measure when a client sends its SYN again while policy denies the connection, and how the
    attempt ends.

    The attempt ends either at the suite's time limit, or by the node's own time-out, which is
    recorded in the node's wording.
    """

    def measure(client: Workload) -> None:
        server = scene.pick(scene.servers, "linux", client)
        with ThreadPoolExecutor(1) as pool:
            capturing = pool.submit(
                scene.hosts.packets_on_linux,
                server.node,
                PATIENT + 4,
                VXLAN_PORT,
                [client.address],
                [server.address],
            )
            SYSTEM_CLOCK.sleep(2.0)  # until the capture has started
            denials = {
                f"tcp-denied/{system}": _try(
                    client, Kind.TCP, scene.pick(scene.servers, system, client), ECHO_PORT
                )
                for system in sorted({one.os for one in scene.servers})
            }
            if client.os == "windows":  # at its server no packets are captured
                denials["time-out/windows"] = replace(
                    denials["tcp-denied/windows"], give_up_after=TIME_OUT
                )
            _keep(scene, denials)
            at = syn_times(packets.text(capturing.result(), VXLAN_PORT), client.address)
        if len(at) < 2:
            raise ProbeBroken(f"{len(at)} SYNs in {PATIENT:g} s on node {server.node}")
        scene.record.add("syn-again", client, "s", at[1] - at[0])
        scene.record.add("syn-times", client, "s", *(one - at[0] for one in at))

    elsewhere = [c for c in scene.clients if scene.pick(scene.servers, "linux", c).node != c.node]
    denied(scene, lambda: scene.each("syn-again", elsewhere, measure))


def syn_times(text: str, source: str) -> list[float]:
    """Return the time of each captured SYN from a source, in seconds of the day. ``text`` comes
    from :func:`conformance.evidence.packets.text`."""
    lines = re.findall(
        rf"^(\S+) .*{re.escape(source)} > \S+ TCP \d+ > \d+ SYN,", text, re.MULTILINE
    )
    seconds = sorted(
        (datetime.strptime(line, "%H:%M:%S.%f") - datetime(1900, 1, 1)).total_seconds()
        for line in lines
    )
    return [at for n, at in enumerate(seconds) if not n or at - seconds[n - 1] > 0.05]


def http(scene: Scene) -> None:
    """Measure how the echo server on each node answers malformed requests."""
    text = (MANIFESTS / "probes" / "raw_http.py").read_text(encoding="ascii")
    argv = ("python3", "-I", "-S", "-c", text)

    def measure(server: Workload) -> None:
        done = scene.command(
            scene.pick(scene.clients, "linux"), *argv, server.address, str(ECHO_PORT)
        )
        try:
            answers = json.loads(done.stdout)
        except ValueError:
            raise ProbeBroken(
                f"raw_http.py printed no complete JSON object: {done.output[-200:]!r}"
            ) from None
        for name, ended in answers.items():
            scene.record.add(f"http-{name}", server, "", ended)

    scene.each("http", scene.servers, measure)
