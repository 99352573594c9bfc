"""Verifies by traffic that the pods of both operating systems reach each other, within and between nodes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from conformance.errors import Nonconformance, SuiteError
from conformance.expect.traffic import Expect
from conformance.kube.changes import Changes
from conformance.kube.client import Kube
from conformance.kube.ownership import Ownership
from conformance.model.endpoint import OS
from conformance.model.facts import Facts
from conformance.pods.deploy import Pods
from conformance.pods.placement import Placement
from conformance.pods.roles import DEMO_PORT
from conformance.pods.worker_pods import WorkerPods
from conformance.probe.prober import Prober
from conformance.settings import Settings


def connectivity_problem(kube: Kube, facts: Facts, settings: Settings, *, process: str = "") -> str:
    """Describe in one line which pods do not reach each other; empty when all do.

    ``process`` signs what is made for it (:mod:`conformance.undo.liveness`).
    """
    run = Ownership(settings.run_id, "whole", process)
    settings = replace(settings, worker=run.worker)
    pods = Pods(kube, Changes(kube, run), facts, settings)
    placement = Placement(facts, settings.tolerations, cover=settings.cover)
    with TemporaryDirectory(prefix="calico-conformance-") as folder:
        prober = Prober(kube, Path(folder), settings)
        worker_pods = WorkerPods(pods, placement)
        problem = ""
        try:
            systems: tuple[OS, ...] = ("linux", "windows")
            clients = [client for os in systems for client in worker_pods.clients(os)]
            servers = [server.tcp(DEMO_PORT) for os in systems for server in worker_pods.servers(os)]
            Expect(prober, settings.timings).reachable(
                clients,
                servers,
                because="everything that was changed has been put back, and no policy is in force",
            )
        except (Nonconformance, SuiteError) as found_out:
            problem = f"not every pod reaches every other: {str(found_out).splitlines()[0]}"
        finally:
            worker_pods.close()
            prober.close()
            left = _removed(pods)
    return problem or left


def _removed(pods: Pods) -> str:
    """Remove the pods that were made to look; why they could not be, in one line."""
    try:
        pods.remove()
    except SuiteError as error:
        return f"what was made to look whether pods reach each other is left: {str(error).splitlines()[0]}"
    return ""
