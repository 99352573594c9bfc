# SPDX-License-Identifier: Apache-2.0
"""Undoes procedures in the journal, for another process that restores, or at the end of a test."""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from conformance.disrupt.disruptions import Disruptions
from conformance.disrupt.ending_policy import ENDING_POLICY
from conformance.disrupt.felix import FELIX_RESTART
from conformance.disrupt.healer import Healer
from conformance.disrupt.kube_proxy import KubeProxy
from conformance.disrupt.patience import patience_of
from conformance.disrupt.procedure import HNS_NETWORK
from conformance.disrupt.third_party import DAEMONSET_PODS
from conformance.journal import Entry, Healers
from conformance.journal.journalling import Plainly
from conformance.kube import execute
from conformance.kube.changes import Changes
from conformance.kube.execute import ExecResult
from conformance.kube.ownership import Ownership
from conformance.model.change import ObjectRef
from conformance.model.endpoint import Workload
from conformance.model.facts import Facts
from conformance.pods.deploy import Pods
from conformance.pods.host_pods import HostPods
from conformance.probe import hns
from conformance.probe.host import Hosts
from conformance.settings import Settings

HEALERS = (HNS_NETWORK, DAEMONSET_PODS, FELIX_RESTART, ENDING_POLICY)


def healers_of(changes: Changes, facts: Facts, settings: Settings) -> Healers:
    """Map each procedure to the function that undoes it in the name of the run that left it.

    The function records nothing: the entry stays open until the node works again. A healer needs no
    objects of a test. It reads the node from its own host pod, which is removed at the end.
    """

    def command(workload: Workload, argv: Sequence[str], within: float) -> ExecResult:
        return execute.run(
            changes.kube, workload.namespace, workload.pod, workload.container, argv, within=within
        )

    def undo(healer: Healer, run: str, arguments: Mapping[str, Any]) -> None:
        # the cordon and the policies belong to the dead run
        theirs = Changes(changes.kube, Ownership(run, changes.run.worker))
        with _own_host_pods(changes, facts, settings, str(arguments["node"])) as host_pods:
            network = facts.pod_network.value or hns.PODS
            place = host_pods.on
            parts = Disruptions(
                changes=theirs,
                journal=Plainly(theirs),
                facts=facts,
                settings=settings,
                hosts=Hosts(command, place, place, settings.timings, pods=network),
            )
            healer.undo(parts, arguments)

    return {healer.name: functools.partial(undo, healer) for healer in HEALERS}


def revivals(
    changes: Changes, settings: Settings, entries: Sequence[Entry]
) -> dict[str, Callable[[], object]]:
    """Map Windows nodes whose HNS network may be new to a function that restarts their kube-proxy.

    If the network is removed, the node's load balancers for Services are removed, too, and
    kube-proxy may never create them again.
    """
    names = [
        str(entry.arguments["node"]) for entry in entries if entry.procedure == HNS_NETWORK.name
    ]
    proxy = KubeProxy(changes, Plainly(changes), patience_of(settings)("windows"))
    return {node: functools.partial(proxy.restart, node) for node in names}


@contextmanager
def _own_host_pods(
    changes: Changes, facts: Facts, settings: Settings, node: str
) -> Iterator[HostPods]:
    """Yield a healer's own host pods, in a namespace that is deleted together with them. No pod is
    created before its first use.
    """
    number = [found.name for found in facts.nodes].index(node) + 1
    own = replace(changes.run, worker=f"{changes.run.worker}-healer-{number}")
    pods = Pods(changes.kube, Changes(changes.kube, own), facts, settings)
    try:
        yield HostPods(pods)
    finally:
        pods.changes.delete(
            ObjectRef(api_version="v1", kind="Namespace", name=pods.host_namespace),
            "the healer has done its work",
        )
