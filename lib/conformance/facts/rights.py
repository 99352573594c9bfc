# SPDX-License-Identifier: Apache-2.0
"""The rights that each kind of test needs, in the order of the roles in ``manifests/rbac``.

Without the rights to read, no run is possible. Tests that lack other rights are NOT_RUN.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from conformance.kube.client import Kube
from conformance.kube.ownership import SYSTEM_NAMESPACE
from conformance.kube.rights import Right, missing

READING: tuple[Right, ...] = (
    Right("list", "nodes", needed_for="know which nodes run Windows"),
    Right("list", "pods", needed_for="know which pods run on which nodes"),
    Right("get", "namespaces", needed_for="check that the run's namespaces belong to it"),
    Right("list", "namespaces", needed_for="find leftovers of dead runs"),
    Right(
        "get",
        "configmaps",
        needed_for="read journals, and the configuration of Calico and kube-proxy",
    ),
    Right("list", "configmaps", needed_for="find journals of dead runs"),
    Right("list", "leases", "coordination.k8s.io", SYSTEM_NAMESPACE, needed_for="find run locks"),
    Right(
        "list", "daemonsets", "apps", needed_for="read the configuration of Calico and kube-proxy"
    ),
    Right("list", "ippools", "projectcalico.org", needed_for="read Calico's configuration"),
)
"""The rights that every run needs, including a run that changes nothing (role read-only)."""

DEPLOYING: tuple[Right, ...] = (
    Right("create", "namespaces", needed_for="create the run's namespaces"),
    Right("delete", "namespaces", needed_for="clean up"),
    Right("create", "configmaps", needed_for="mount the probe programs"),
    Right("patch", "configmaps", needed_for="mount the probe programs"),
    Right("create", "deployments", "apps", needed_for="deploy the demo pods"),
    Right("patch", "deployments", "apps", needed_for="deploy the demo pods"),
    Right("delete", "deployments", "apps", needed_for="remove a test's pods"),
    Right("create", "daemonsets", "apps", needed_for="pull images before pods wait for them"),
    Right("patch", "daemonsets", "apps", needed_for="pull images before pods wait for them"),
    Right("delete", "daemonsets", "apps", needed_for="remove the DaemonSets that pulled images"),
    Right("create", "services", needed_for="test services"),
    Right("patch", "services", needed_for="test services"),
    Right("create", "pods", needed_for="start pods that no controller replaces"),
    Right("delete", "pods", needed_for="remove pods that no controller replaces"),
    Right("watch", "pods", needed_for="wait for the demo pods"),
    Right("get", "pods", needed_for="notice a pod that restarted during a check"),
    Right("get", "pods/exec", needed_for="start the probe agents"),
    Right(
        "create",
        "pods/exec",
        needed_for="start the probe agents (Kubernetes 1.35 asks for create as well)",
    ),
    Right("list", "events", needed_for="explain why a pod does not start"),
)
"""The rights that tests with pods need (role standard)."""

POLICIES: tuple[Right, ...] = (
    Right("patch", "namespaces", needed_for="label a namespace of the run"),
    Right("create", "serviceaccounts", needed_for="distinguish pods by their account"),
    Right("patch", "serviceaccounts", needed_for="distinguish pods by their account"),
    Right("delete", "serviceaccounts", needed_for="remove an account"),
    *(
        Right(verb, resource, group, needed_for="apply the policies under test and remove them")
        for group, resources, verbs in (
            ("networking.k8s.io", ("networkpolicies",), ("create", "patch", "delete")),
            ("projectcalico.org", ("networkpolicies", "globalnetworkpolicies", "tier.networkpolicies",
                                   "tier.globalnetworkpolicies", "tiers", "networksets"),
             ("create", "get", "update", "delete")),
        )
        for resource in resources
        for verb in verbs
    ),
)  # fmt: skip
"""The rights that tests of policies need besides pods (role standard). Calico's policies are
created by POST, and replaced by PUT if this run created them, since Calico's API server does not
support server-side apply."""

CALICOCTL: tuple[Right, ...] = tuple(
    Right(
        verb, resource, "crd.projectcalico.org", needed_for="write Calico policies with calicoctl"
    )
    for resource in (
        "networkpolicies",
        "globalnetworkpolicies",
        "stagednetworkpolicies",
        "networksets",
        "tiers",
    )
    for verb in ("create", "update", "delete")
)
"""The rights that --calicoctl needs if projectcalico.org/v3 is not served (role calicoctl, together
with another role), since calicoctl has the rights of its user. The right to read is part of every
role.
"""

DISRUPTING: tuple[Right, ...] = (
    *(Right(verb, "leases", "coordination.k8s.io", SYSTEM_NAMESPACE, needed_for="hold and release the run lock")
      for verb in ("create", "update", "delete")),
    *(Right(verb, "configmaps", namespace=SYSTEM_NAMESPACE, needed_for="keep the journal and remove it at the end")
      for verb in ("create", "patch", "delete")),
    Right("patch", "nodes", needed_for="cordon a node and uncordon it"),
    Right("create", "pods/eviction", needed_for="drain a node"),
    Right("get", "felixconfigurations", "projectcalico.org", needed_for="change Calico's settings and put them back"),
    Right("patch", "felixconfigurations", "projectcalico.org", needed_for="change Calico's settings and put them back"),
    Right("patch", "felixconfigurations", "crd.projectcalico.org",
          needed_for="put Calico's settings back while its API server is away"),
)  # fmt: skip
"""The rights of tests that change more than the run's own namespaces (role disruptive). Run lock
and journal need a Role in the suite's own namespace, which manifests/rbac creates. Granted
cluster-wide, these verbs would also allow changes of leader elections."""

BACKENDS: tuple[Right, ...] = (
    *(
        Right(verb, "endpointslices", "discovery.k8s.io", needed_for="name backends of a Service")
        for verb in ("create", "patch", "delete")
    ),
    Right("patch", "pods/status", needed_for="let a pod of the run become ready and unready"),
)
"""The rights of tests that themselves write the EndpointSlices of a Service (role
service-backends)."""

NEEDS: Mapping[str, tuple[Right, ...]] = {
    "pods": DEPLOYING,
    "service-backends": BACKENDS,
    "policies": POLICIES,
    "disruption": DISRUPTING,
}
"""The rights that each need of tests requires."""
OF_CLUSTER: Mapping[str, tuple[Right, ...]] = {
    "pools": tuple(
        Right(
            verb, "ippools", "projectcalico.org", needed_for="create a disabled pool and remove it"
        )
        for verb in ("create", "patch", "delete")
    ),
    "node-status": tuple(
        Right(verb, "caliconodestatuses", "projectcalico.org", needed_for="ask for BGP's status")
        for verb in ("create", "delete")
    ),
}
"""The rights for tests that change the whole cluster (roles of these names, in addition to
disruptive)."""
RBAC_ROLES: Mapping[str, str] = {
    "pods": "standard", "policies": "standard", "disruption": "disruptive",
    "calicoctl": "calicoctl", "service-backends": "service-backends",
    "pools": "pools", "node-status": "node-status",
}  # fmt: skip
"""The role in ``manifests/rbac`` that grants the rights for each need."""


def lacking(
    kube: Kube,
    *,
    calicoctl: bool = False,
    whole_cluster: bool = False,
    namespaces: Sequence[str] = (),
) -> dict[str, tuple[str, ...]]:
    """Map each need for which the user lacks rights to the missing rights and their purpose.

    ``calicoctl``: the command is available, for clusters that do not serve Calico's API.
    ``whole_cluster``: the run may change the whole cluster. ``namespaces``: the run works only in
    these namespaces, which the cluster's owner has prepared, and needs no right outside them.
    Rights to create are checked in each of these namespaces, other rights only in the first.
    """
    has_v3 = kube.discovery.serves("projectcalico.org/v3", "NetworkPolicy")
    asked = {**NEEDS, **(OF_CLUSTER if whole_cluster else {})}
    wanted = {need: _served(rights, calicos=has_v3) for need, rights in asked.items()}
    if namespaces:
        del wanted["disruption"]
        wanted = {need: _within(rights, namespaces) for need, rights in wanted.items()}
    if calicoctl and not has_v3:
        wanted["calicoctl"] = list(CALICOCTL)
    absent = set(missing(kube, [right for rights in wanted.values() for right in rights]))
    found = {
        need: tuple(
            f"{right.label} (needed to {right.needed_for})" for right in rights if right in absent
        )
        for need, rights in wanted.items()
    }
    return {need: lines for need, lines in found.items() if lines}


def _within(rights: Sequence[Right], namespaces: Sequence[str]) -> list[Right]:
    """Return the rights that a run needs if it works only in these namespaces."""
    return [
        replace(right, namespace=name)
        for name in namespaces
        for right in rights
        if right.resource not in WHOLE_CLUSTER and (name == namespaces[0] or right.verb == "create")
    ]


WHOLE_CLUSTER = frozenset(
    {"namespaces", "globalnetworkpolicies", "tier.globalnetworkpolicies", "tiers"}
)
"""The resources without a namespace that tests write."""


def _served(rights: Sequence[Right], *, calicos: bool) -> list[Right]:
    """Return the rights to APIs that the cluster serves. Without Calico's API, nobody needs rights
    to it."""
    return [right for right in rights if calicos or right.group != "projectcalico.org"]
