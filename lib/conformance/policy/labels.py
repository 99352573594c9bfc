# SPDX-License-Identifier: Apache-2.0
"""The labels that selectors match: an object's own, and those that Kubernetes and Calico add.

Sources: Kubernetes' reference, "Well-known labels"; Calico's documents, "Calico automatic labels",
and libcalico-go/lib/backend (k8s/conversion, syncersv1/updateprocessors). Objects have the form
that the API gives them.
"""

from collections.abc import Mapping
from typing import Any

Labels = Mapping[str, str]

NAME_LABEL = "projectcalico.org/name"
"""Label of namespaces and service accounts; each namespace has it."""
NAMESPACE_LABEL = "projectcalico.org/namespace"
"""Label of every object in a namespace, for selectors of endpoints and network sets."""
OF_ACCOUNTS = "pcsa."
"""Beginning of the labels that a pod has from its service account."""
_LONGEST_ACCOUNT = 62
"""The maximum length of a service account's name, in characters. Calico adds no label to the pods
of a service account with a longer name."""


def own(obj: Mapping[str, Any]) -> dict[str, str]:
    """Return the labels that an object's maker gave it."""
    given = (obj.get("metadata") or {}).get("labels") or {}
    return {str(key): str(value) for key, value in given.items()}


def of_namespace(namespace: Mapping[str, Any]) -> dict[str, str]:
    """Return the labels of a Namespace that namespaceSelectors of both kinds match."""
    name = namespace["metadata"]["name"]
    return {**own(namespace), "kubernetes.io/metadata.name": name, NAME_LABEL: name}


def of_service_account(account: Mapping[str, Any]) -> dict[str, str]:
    """Return the labels of a ServiceAccount that Calico's serviceAccountSelector matches."""
    return {**own(account), NAME_LABEL: account["metadata"]["name"]}


def of_pod(pod: Mapping[str, Any], namespace: Labels, account: Labels) -> dict[str, str]:
    """Return the labels of a Pod that Calico's selectors match.

    ``namespace``, ``account``: the labels of the pod's namespace and service account, as the
    functions above return them. The pod has these labels too, prefixed with ``pcns.`` and
    ``pcsa.``.
    """
    name = account_of(pod)
    added = {NAMESPACE_LABEL: pod["metadata"]["namespace"], "projectcalico.org/orchestrator": "k8s"}
    if len(name) <= _LONGEST_ACCOUNT:
        added["projectcalico.org/serviceaccount"] = name
    return {**_prefixed("pcns.", namespace), **_prefixed(OF_ACCOUNTS, account), **own(pod), **added}


def of_network_set(network_set: Mapping[str, Any], namespace: Labels | None) -> dict[str, str]:
    """Return the labels of a NetworkSet or GlobalNetworkSet that Calico's selectors match.
    ``namespace``: the labels of the NetworkSet's namespace; None for a GlobalNetworkSet."""
    if namespace is None:
        return own(network_set)
    added = {NAMESPACE_LABEL: network_set["metadata"]["namespace"]}
    return {**_prefixed("pcns.", namespace), **own(network_set), **added}


def account_of(pod: Mapping[str, Any]) -> str:
    """Return the name of a pod's service account; Kubernetes fills in ``default``."""
    return str((pod.get("spec") or {}).get("serviceAccountName") or "default")


def _prefixed(prefix: str, labels: Labels) -> dict[str, str]:
    return {prefix + key: value for key, value in labels.items()}
