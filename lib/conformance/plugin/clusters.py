"""Opens the clusters that users name, and the run's own lab."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from conformance.plugin.choice import Choice
from conformance.plugin.lab import LabProcess
from conformance.plugin.provider import Connection, Inspection
from conformance.plugin.rundir import RunDirectory
from conformance.settings import Settings


class Clusters:
    """The provider of every run that brings none of its own."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lab: LabProcess | None = None
        self._door: Any = None

    def begin(self, choice: Choice, settings: Settings, run: RunDirectory) -> None:
        """Start a lab, if the run has its own."""
        if choice.own_lab:
            self._lab = LabProcess(run.path / "lab", choice.profile, settings.timings.run)

    def open(self, choice: Choice, settings: Settings, run: RunDirectory) -> Connection:
        """Wait for the lab, or read the kubeconfig.  Raises UsageProblem or ClusterUnusable."""
        import conformance.cluster  # noqa: F401 - while a lab starts; the client takes its time to import

        path = str(choice.kubeconfig) if choice.kubeconfig else None
        if self._lab:
            self._lab.wait()
            path = str(self._lab.kubeconfig)
        connection = Connection(how=choice.how, label="", kubeconfig=path, context=choice.context)
        access = _access(connection)
        profile = f"lab {choice.profile or 'default'}, " if self._lab else ""
        label = f"{profile}{access.server}, {access.where}"
        return Connection(how=choice.how, label=label, kubeconfig=path, context=choice.context)

    def inspect(self, connection: Connection, settings: Settings) -> Inspection:
        """Facts, preflight, room for workers."""
        from conformance.cluster import inspect

        facts, reasons, free = inspect(self.connect(connection, settings), settings)
        return Inspection(facts=facts, reasons=tuple(reasons), free_windows_addresses=free)

    def connect(self, connection: Connection, settings: Settings) -> Any:
        """The Kube of this process."""
        if self._door is None:
            from conformance.kube.client import Kube

            self._door = Kube(_access(connection))
        return self._door

    def close(self) -> None:
        """Give connections back, end the lab."""
        if self._door is not None:
            self._door.close()
            self._door = None
        if self._lab:
            self._lab.stop()


def _access(connection: Connection) -> Any:
    from conformance.kube import access

    if connection.how == "in-cluster":
        return access.in_cluster(os.environ)
    if connection.kubeconfig:
        return access.from_kubeconfig(Path(connection.kubeconfig), connection.context)
    return access.from_environment(os.environ, connection.context)
