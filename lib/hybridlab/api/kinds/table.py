# SPDX-License-Identifier: Apache-2.0
"""The strategy of each built-in kind."""

from collections.abc import Callable

from hybridlab.api.kinds.calico import calico_strategies
from hybridlab.api.kinds.calico_rules import SelectorProblem
from hybridlab.api.kinds.cluster import (
    ClaimStrategy,
    ConfigMapStrategy,
    NamespaceStrategy,
    NodeStrategy,
    SecretStrategy,
    ServiceAccountStrategy,
)
from hybridlab.api.kinds.definitions import STORAGE, DefinitionStrategy, RegistrationStrategy
from hybridlab.api.kinds.networking import (
    DisruptionBudgetStrategy,
    EndpointSliceStrategy,
    EndpointsStrategy,
    EventStrategy,
    LeaseStrategy,
    NetworkPolicyStrategy,
)
from hybridlab.api.kinds.pods import PodStrategy
from hybridlab.api.kinds.rights import GROUP, BindingStrategy, RoleStrategy
from hybridlab.api.kinds.services import ServiceStrategy
from hybridlab.api.kinds.strategy import Strategy
from hybridlab.api.kinds.workloads import WorkloadStrategy
from hybridlab.api.store import Store


def strategies(
    store: Store,
    *,
    service_cidr: str,
    node_port_range: str,
    populate_namespace: Callable[[str], None],
    selector_problem: SelectorProblem,
    names_with_tier: bool,
) -> dict[str, Strategy]:
    """Return the strategies of stored kinds; kinds without an entry have no special behaviour."""
    return {
        "pods": PodStrategy(store),
        "services": ServiceStrategy(service_cidr, node_port_range),
        "namespaces": NamespaceStrategy(populate_namespace),
        "nodes": NodeStrategy(),
        "serviceaccounts": ServiceAccountStrategy(),
        "configmaps": ConfigMapStrategy(),
        "secrets": SecretStrategy(),
        "persistentvolumeclaims": ClaimStrategy(),
        "endpoints": EndpointsStrategy(),
        "events": EventStrategy(),
        "deployments.apps": WorkloadStrategy(store, "Deployment"),
        "replicasets.apps": WorkloadStrategy(store, "ReplicaSet"),
        "daemonsets.apps": WorkloadStrategy(store, "DaemonSet"),
        "endpointslices.discovery.k8s.io": EndpointSliceStrategy(),
        "networkpolicies.networking.k8s.io": NetworkPolicyStrategy(),
        "poddisruptionbudgets.policy": DisruptionBudgetStrategy(),
        "leases.coordination.k8s.io": LeaseStrategy(),
        f"roles.{GROUP}": RoleStrategy(cluster=False),
        f"clusterroles.{GROUP}": RoleStrategy(cluster=True),
        f"rolebindings.{GROUP}": BindingStrategy(cluster=False),
        f"clusterrolebindings.{GROUP}": BindingStrategy(cluster=True),
        STORAGE: DefinitionStrategy(),
        "apiservices.apiregistration.k8s.io": RegistrationStrategy(),
        **calico_strategies(store, selector_problem, names_with_tier=names_with_tier),
    }
