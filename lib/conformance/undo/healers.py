"""What undoes each procedure that the journal may hold, put together from the judge's parts."""

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from conformance.disrupt.drain import Drain
from conformance.disrupt.ending_policy import ENDING_POLICY
from conformance.disrupt.felix import FELIX_RESTART, Felix, os_of
from conformance.disrupt.felix_service import FelixService, may_be_service
from conformance.disrupt.kube_proxy import KubeProxy
from conformance.disrupt.patience import patience_of
from conformance.disrupt.procedure import HNS_NETWORK, Procedure
from conformance.disrupt.third_party import DAEMONSET_PODS, ThirdPartyPods
from conformance.disrupt.vni import Vni
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
from conformance.undo.hns_network import HnsNetworkHealer


def healers_of(changes: Changes, facts: Facts, settings: Settings) -> Healers:
    """Healers by name.  Also made by a process that only restores: they may ask for nothing that a test made."""
    return {
        HNS_NETWORK: functools.partial(_hns_network, changes, facts, settings),
        DAEMONSET_PODS: functools.partial(_daemonset_pods, changes, settings),
        FELIX_RESTART: functools.partial(_felix_restart, changes, facts, settings),
        ENDING_POLICY: functools.partial(_ending_policy, changes, facts, settings),
    }


def revivals(
    changes: Changes, settings: Settings, entries: Sequence[Entry]
) -> dict[str, Callable[[], object]]:
    """Windows nodes whose HNS network may have been made anew, by what starts their kube-proxy anew.

    Removing the network takes the node's Services with it, which kube-proxy may never make again.
    """
    proxy = KubeProxy(changes.kube, Plainly(changes), patience_of(settings)("windows"))
    nodes = [str(entry.arguments["node"]) for entry in entries if entry.procedure == HNS_NETWORK]
    return {node: functools.partial(proxy.restart, node) for node in nodes}


def _felix_restart(
    changes: Changes, facts: Facts, settings: Settings, run: str, arguments: dict[str, Any]
) -> None:
    """See that Felix is back on one node: until then policies do not change there."""
    node = str(arguments["node"])
    with _own_host_pods(changes, facts, settings, node) as host_pods:

        def in_host(node: str, argv: Sequence[str]) -> ExecResult:
            pod = host_pods.on(node)
            return execute.run(
                changes.kube,
                pod.namespace,
                pod.pod,
                pod.container,
                argv,
                within=settings.timings.windows.exec_overhead,
            )

        services = (
            FelixService(in_host, by_agent=facts.install.value == "agent")
            if may_be_service(facts)
            else None
        )
        Felix(
            changes.kube,
            Plainly(changes),
            os_of(facts),
            patience_of(settings),
            services=services,
            windows_pods=facts.felix_pods,
        ).back(node)


def _ending_policy(
    changes: Changes, facts: Facts, settings: Settings, run: str, arguments: dict[str, Any]
) -> None:
    """Remove policies that may end Felix on one node, then as :func:`_felix_restart`."""
    theirs = Changes(changes.kube, Ownership(run, changes.run.worker))
    for name in arguments["policies"]:
        target = ObjectRef(
            api_version="projectcalico.org/v3",
            kind="NetworkPolicy",
            name=str(name),
            namespace=str(arguments["namespace"]),
        )
        theirs.delete(target, "it may end Felix")
    _felix_restart(changes, facts, settings, run, arguments)


def _daemonset_pods(
    changes: Changes, settings: Settings, run: str, arguments: dict[str, Any]
) -> None:
    """Have pods of DaemonSets made anew that may have lost their network."""
    ThirdPartyPods(changes.kube, Plainly(changes), patience_of(settings)("windows")).renew(
        str(arguments["node"]), arguments["pods"]
    )


def _hns_network(
    changes: Changes, facts: Facts, settings: Settings, run: str, arguments: dict[str, Any]
) -> None:
    """Heal one node in the name of the run that left it, looking from a host pod of its own, which is removed again."""
    theirs = Changes(
        changes.kube, Ownership(run, changes.run.worker)
    )  # its cordon, if that is what is left
    with _own_host_pods(changes, facts, settings, str(arguments["node"])) as host_pods:
        _healer(theirs, facts, settings, host_pods).heal(arguments)


@contextmanager
def _own_host_pods(
    changes: Changes, facts: Facts, settings: Settings, node: str
) -> Iterator[HostPods]:
    """Host pods of a healer's own, in a namespace that goes with it; none is made unless one is asked for."""
    kube = changes.kube
    number = [found.name for found in facts.nodes].index(node) + 1
    own = replace(changes.run, worker=f"{changes.run.worker}-healer-{number}")
    pods = Pods(kube, Changes(kube, own), facts, settings)
    try:
        yield HostPods(pods)
    finally:
        namespace = ObjectRef(api_version="v1", kind="Namespace", name=pods.host_namespace)
        pods.changes.delete(namespace, "the healer has done its work")


def _healer(
    changes: Changes, facts: Facts, settings: Settings, host_pods: HostPods
) -> HnsNetworkHealer:
    kube = changes.kube

    def run(workload: Workload, argv: Sequence[str], within: float) -> ExecResult:
        return execute.run(
            kube, workload.namespace, workload.pod, workload.container, argv, within=within
        )

    patience = patience_of(settings)("windows")
    plainly = Plainly(changes)
    hosts = Hosts(
        run, host_pods.on, host_pods.on, settings.timings, pods=facts.pod_network.value or hns.PODS
    )
    vni = Vni(kube, plainly, hosts, facts, patience)
    drain = Drain(changes, plainly, patience, lose_data=settings.delete_emptydir_data)
    felix = Felix(kube, plainly, os_of(facts), patience_of(settings))
    return HnsNetworkHealer(
        vni,
        Procedure(drain, felix, hosts, ThirdPartyPods(kube, plainly, patience), patience),
        drain,
        within=settings.timings.windows.pod_ready,
        every=patience.poll_every,
    )
