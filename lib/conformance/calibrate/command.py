# SPDX-License-Identifier: Apache-2.0
"""``calico-conformance calibrate`` and ``calibration diff``: the run, its time limit, and its
file."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from conformance import product
from conformance.calibrate import compare, effects, hosts, network, record, starts
from conformance.calibrate.scene import Scene, covered
from conformance.errors import SuiteError, UsageProblem, first_line
from conformance.model.facts import Facts
from conformance.printing import say
from conformance.run.choice import choose
from conformance.run.clusters import Clusters
from conformance.run.directory import RunDirectory
from conformance.run.lab import SOURCES
from conformance.run.run import Run
from conformance.settings import Cover, Images, Mirror, Settings, Toleration, load_timings
from conformance.timing import Deadline

MINUTES = 10.0


STEPS = (
    ("pods", "a client and a server on each node", 30, Scene.deploy),
    ("pod-start", "image pulls and starts of pods, from their events", 2, starts.pods),
    ("exec", "latency of an exec", 5, starts.execs),
    (
        "powershell-start",
        "PowerShell's start: cold, warm, two and three at once",
        20,
        starts.powershell,
    ),
    ("agent-start", "an agent's start, with CPU and memory of the node", 30, starts.agents),
    (
        "policy-effect",
        f"{effects.CHANGES} changes of policy and their removals, including the denial of "
        "syn-again",
        60,
        effects.policy,
    ),
    ("host programs", "raw output of every read-only program of a Windows host", 20, hosts.read),
    ("errors", "closed and open ports of TCP and UDP, resets", 30, network.errors),
    ("syn-again", "a denial, repeated SYNs, and the system's time-out", 45, network.syns),
    (
        "service-effect",
        "Services and names, from creation to answer",
        30,
        effects.services,
    ),
    ("sources", "source addresses by pod, ClusterIP and NodePort", 20, network.sources),
    ("mtu", "largest packets between nodes", 10, network.mtu),
    ("http", "answers of http.sys to malformed requests", 15, network.http),
    (
        "attempts-per-second",
        "the maximum number of attempts per second of an agent, in steps up to 40",
        20,
        starts.rates,
    ),
)
"""Name, subject, required seconds and function of each measurement. Measurements that cannot be
replaced come first, measurements that load a node come last."""


def calibrate(options: argparse.Namespace) -> int:
    """Measure a cluster, compare the values with the assumptions, and write the file."""
    if not 0 < options.minutes <= MINUTES:
        raise UsageProblem(
            f"--minutes {options.minutes:g}: expected more than 0 and up to {MINUTES:g}"
        )
    if not options.to.parent.is_dir():  # later, this error would come after ten minutes
        raise UsageProblem(f"--to {options.to}: the folder {options.to.parent} does not exist")
    box = Deadline(options.minutes * 60)
    run = _run(options)
    assert run.provider and run.directory  # noqa: PT018 - :func:`_run` gave them

    def end(*_: Any) -> None:
        run.interrupt()  # from now on, only the cleanup may wait
        raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    try:
        run.provider.begin(run.choice, run.settings, run.directory)
        run.open()
        assert run.facts is not None  # because the run is open
        return _plan(run, run.facts) if options.plan else _measure(run, run.facts, box, options.to)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    finally:
        say(*([] if options.plan else run.clean_up()), error=True)
        run.provider.close()
        run.directory.discard()


def _run(options: argparse.Namespace) -> Run:
    """Return the run that the options describe. This does not contact the cluster."""
    named = options.kubeconfig or options.lab_profile
    choice = choose(
        cluster="kubeconfig" if not named and "KUBECONFIG" in os.environ else None,
        kubeconfig=str(options.kubeconfig or "") or None,
        context=options.context,
        profile=options.lab_profile,
        keep=False,
    )
    timings = load_timings(lab=choice.own_lab)
    # a pod may wait for its image and for readiness, each for at most a quarter of the time
    bound = options.minutes * 60 / 4
    bounded = {
        name: replace(getattr(timings, name), image_pull=bound, pod_ready=bound)
        for name in ("linux", "windows")
    }
    settings = Settings(
        timings=replace(timings, **bounded),
        images=Images(mirrors=tuple(map(Mirror.parse, options.image_registry))),
        tolerations=tuple(map(Toleration.parse, options.tolerate)),
        cover=Cover(nodes=tuple(filter(None, options.nodes.split(",")))),
        plan=options.plan,
    )
    directory, run_id = RunDirectory.create(options.report_dir)
    directory.hold()
    settings = replace(settings, run_id=run_id)
    return Run(
        choice=choice,
        settings=settings,
        directory=directory,
        provider=Clusters(product.root()),
    )


def _plan(run: Run, facts: Facts) -> int:
    """Print what would be measured. Change nothing."""
    base = run.ownership(run.settings.worker).namespace
    nodes = covered(facts, run.settings)
    say(
        f"calibrate: {run.evidence}, {run.connection.label if run.connection else ''}",
        *(f"node {node.name}: {node.os} {node.revision}".rstrip() for node in nodes),
        f"makes and removes namespaces {base} and {base}-host; in them two pods and one host pod "
        "per "
        f"node, {effects.CHANGES} NetworkPolicies, {effects.CHANGES // 5 + len(nodes)} Services; "
        "changes nothing else; needs the role standard (calico-conformance kubeconfig)",
        *(f"  {name}: {what} (about {needs:g} s)" for name, what, needs, _ in STEPS),
        f"about {sum(needs for _, _, needs, _ in STEPS) / 60:.0f} min with images "
        f"on the nodes, {MINUTES:g} min at most",
    )
    return 0


def _measure(run: Run, facts: Facts, box: Deadline, target: Path) -> int:
    assert run.directory is not None  # because :func:`_run` has set it
    clearing_up = min(30.0, box.remaining / 4)
    scene = Scene(run, facts, Deadline(box.remaining - clearing_up), run.directory.shared)
    try:
        carry_out(scene, STEPS)
    finally:
        scene.prober.close()
        scene.pods.remove()
    head = {
        "evidence": run.evidence,
        "seconds": round(box.elapsed, 1),
        "kubernetes": facts.kubernetes_version.value,
        "calico": facts.calico_version.value,
        "mode": facts.mode.value,
        "platform": facts.platform.value,
    }
    others = [node.name for node in facts.nodes if node not in scene.nodes]
    plain = scene.record.document(head, scene.nodes, [run.settings.run_id, *others])
    plain["assumptions"] = compare.compared(
        [*compare.of_judge(), *of_lab()], plain["measurements"], emulated=run.evidence == "lab"
    )
    record.write(plain, target)
    say(
        *(
            f"not measured: {one['id']} {one['node']}: {one['why']}"
            for one in plain["not_measured"]
        ),
        *compare.lines(plain),
        f"{target}: read it, then send it (docs/field-guide.md)",
    )
    return 0


def carry_out(
    scene: Scene, steps: Iterable[tuple[str, str, float, Callable[[Scene], None]]]
) -> None:
    """Take the measurements one after the other. If a measurement fails, or no time is left for it,
    record the reason and go on with the next measurement."""
    for name, what, needs, measure in steps:
        say(f"{name}: {what}", error=True)
        try:
            if scene.box.remaining < needs:
                raise SuiteError(
                    f"{scene.box.remaining:.0f} s left, but it needs about {needs:g} s"
                )
            measure(scene)
        except SuiteError as error:
            scene.record.lack(name, first_line(error))


def of_lab() -> list[dict[str, Any]]:
    """Return the lab's assumptions, as the lab prints them. Return nothing if no lab is installed
    or the lab prints no list; the measurements are valid without them."""
    paths = f"{SOURCES}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    try:
        asked = subprocess.run(
            [sys.executable, "-m", "hybridlab", "assumptions"],
            capture_output=True,
            env={**os.environ, "PYTHONPATH": paths},
            check=False,
            timeout=60,
        )
        return [{"by": "lab", **one} for one in json.loads(asked.stdout or "[]")]
    except (OSError, ValueError, TypeError, subprocess.TimeoutExpired):
        return []


def diff(options: argparse.Namespace) -> int:
    """Print the differences between two calibrations."""
    old = record.read(options.old)
    new = record.read(options.new)
    for plain in (old, new):
        builds = ", ".join(sorted({node["build"] for node in plain["nodes"]} - {""})) or "none"
        say(f"{plain['at']}: {plain['evidence']}, Calico {plain['calico']}, Windows {builds}")
    say(*(compare.difference(old, new) or ["nothing differs"]))
    return 0
