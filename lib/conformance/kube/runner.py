# SPDX-License-Identifier: Apache-2.0
"""The suite's own user on a cluster, and a kubeconfig with its token and no credentials of the
administrator.

The result equals that of ``kubectl apply -f manifests/rbac``, ``kubectl create token`` and a
kubeconfig written by hand.
"""

import base64
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import yaml

from conformance import product
from conformance.errors import ClusterUnusable, first_line
from conformance.kube.access import Access, from_kubeconfig, hidden
from conformance.kube.changes import Changes
from conformance.kube.client import Kube, Obj
from conformance.kube.fields import value_at
from conformance.kube.manifest import load
from conformance.kube.ownership import RUNNER_NAMESPACE, Shared
from conformance.kube.prepared import BASELINE, needed
from conformance.kube.refused import ApiRefused, ApiUnreachable

ROLES = ("standard", "read-only", "disruptive")
"""Roles of ``manifests/rbac``. A user has one of them, by default the first."""
PREPARED = "prepared"
"""The role in namespaces that the cluster's owner has prepared."""
OF_CLUSTER = ("node-status", "pools")
"""Roles that are added to ``disruptive``: tests under --allow-cluster-disruptive use them."""
BESIDE = tuple(
    path.stem
    for path in sorted((product.MANIFESTS / "rbac").glob("*.yaml"))
    if path.stem not in (*ROLES, PREPARED, "runner")
)
"""Roles that a user may have in addition: every other role file."""
GATEWAYS = {
    "/k8s/clusters/": "Rancher's proxy accepts only Rancher's tokens",
    "teleport": "Teleport's proxy accepts only its own certificates",
    "connectgateway": "a Connect gateway accepts only Google's credentials",
}
"""Gateways that accept no token of a ServiceAccount, by a part of their address or TLS name."""
PREPARED_LABEL = "calico-conformance/prepared"
"""The label by which prepared namespaces are removed together; nothing else reads it."""
NAMESPACE = RUNNER_NAMESPACE
RBAC = "rbac.authorization.k8s.io/v1"


@dataclass(frozen=True, kw_only=True)
class Runner:
    """A ServiceAccount that was given its roles, with a token."""

    name: str
    token: str
    ends: datetime


def runner(kube: Kube, account: str, objects: Iterable[Obj], seconds: int) -> Runner:
    """Create a ServiceAccount with its roles, and request a token that lasts ``seconds``; the
    server may change this time. Raise ApiRefused, ApiUnreachable.
    """
    changes = Changes(kube, Shared(account))
    for obj in objects:
        changes.apply(
            obj,
            "a user to run the suite as",
            namespace=obj["metadata"].get("namespace"),
            foreign=True,
        )
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token"
    asked = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": seconds},
    }
    status = kube.request("POST", path, body=asked)["status"]
    ends = datetime.fromisoformat(str(status["expirationTimestamp"]).replace("Z", "+00:00"))
    return Runner(name=account, token=status["token"], ends=ends)


def kubeconfig(kube: Kube, user: Runner, server: str = "") -> str:
    """Return a kubeconfig as YAML: the address by which ``kube`` reaches the cluster, and the
    user's token.

    ``server``: the address of the cluster's own API server, if ``kube`` uses a gateway. The
    kubeconfig then has the certificate authority that pods trust.
    """
    if server:
        root = kube.find("v1", "ConfigMap", "kube-root-ca.crt", "kube-system")
        data = base64.b64encode(str(value_at(root, "data", "ca.crt") or "").encode()).decode()
        cluster: Obj = {"server": server, "certificate-authority-data": data}
    else:
        cluster = _cluster(kube)
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": NAMESPACE,
        "clusters": [{"name": NAMESPACE, "cluster": cluster}],
        "users": [{"name": user.name, "user": {"token": user.token}}],
        "contexts": [{"name": NAMESPACE, "context": {"cluster": NAMESPACE, "user": user.name}}],
    }
    return str(yaml.safe_dump(content, sort_keys=False))


def prove(text: str, user: Runner, by: Access) -> None:
    """Ask the server that a kubeconfig names whether it accepts the user's token.

    ``by``: the access by which the user was made. Raise ClusterUnusable if the server does not
    accept the token.
    """
    with hidden(text.encode()) as path:
        kube = Kube(from_kubeconfig(Path(path)))
    try:
        kube.request("GET", "/version", repeat=False)
    except (ApiRefused, ApiUnreachable) as error:
        named = f"{by.server} {by.configuration.tls_server_name}"
        taken = next((f" ({why})" for part, why in GATEWAYS.items() if part in named), "")
        raise ClusterUnusable(
            [
                f"{kube.access.server} does not accept the token of {user.name}{taken}: "
                f"{first_line(error)}; name the cluster's own API server with --server=URL or "
                "--context (Rancher: the authorized cluster endpoint's), or run as yourself"
            ]
        ) from None
    finally:
        kube.close()


def _cluster(kube: Kube) -> Obj:
    """Return the cluster's entry of the kubeconfig, with the connection settings of ``kube``."""
    configuration = kube.access.configuration
    cluster: Obj = {"server": kube.access.server}
    authority = (configuration.ca_cert_data or "").encode()
    if configuration.ssl_ca_cert:
        authority = Path(configuration.ssl_ca_cert).read_bytes()
    cluster |= (
        {"certificate-authority-data": base64.b64encode(authority).decode()} if authority else {}
    )
    if not configuration.verify_ssl:
        cluster["insecure-skip-tls-verify"] = True
    for key, value in (
        ("tls-server-name", configuration.tls_server_name),
        ("proxy-url", configuration.proxy),
    ):
        cluster |= {key: value} if value else {}
    return cluster


def user_of(role: str, beside: Sequence[str]) -> tuple[str, list[Obj]]:
    """Return the ServiceAccount of a role, with the objects that create it and bind its roles.

    Each role has its own user.
    """
    account = "runner" if role == ROLES[0] else f"runner-{role}"
    return account, list(_objects(account, role, beside_of(role, beside)))


def beside_of(role: str, named: Sequence[str]) -> list[str]:
    """Return the roles that are added to a role: the requested roles, and those that ``disruptive``
    includes."""
    return list(dict.fromkeys((*(OF_CLUSTER if role == "disruptive" else ()), *named)))


def user_of_prefix(prefix: str, workers: int) -> tuple[str, list[Obj]]:
    """Return the ServiceAccount of runs with ``--namespaces-prefix``, with the objects of its
    namespaces and roles.

    Raise UsageProblem for a prefix that no name can have.
    """
    account = f"runner-{prefix}"
    found = list(_objects(account, "read-only", ()))
    for granted in load(product.MANIFESTS / "rbac" / f"{PREPARED}.yaml"):
        found.append(granted)
        for name, labels in needed(prefix, workers).items():
            own = {**BASELINE, **labels, PREPARED_LABEL: prefix}
            found += [
                {
                    "apiVersion": "v1",
                    "kind": "Namespace",
                    "metadata": {"name": name, "labels": own},
                },
                _binding({"name": f"{NAMESPACE}-{account}", "namespace": name}, granted, account),
            ]
    return account, found


def _objects(account: str, role: str, beside: Sequence[str]) -> Iterator[Obj]:
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    yield {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": account, "namespace": NAMESPACE},
    }
    for name in (role, *beside):
        for granted in load(product.MANIFESTS / "rbac" / f"{name}.yaml"):
            yield granted
            if granted["kind"].endswith("Role"):
                bound = f"{NAMESPACE}-{account}" + (f"-{name}" if name != role else "")
                yield _binding({**granted["metadata"], "name": bound}, granted, account)


def _binding(meta: Obj, role: Obj, account: str) -> Obj:
    """Return the binding of a role to a ServiceAccount, in the namespace of ``meta`` if it has
    one."""
    return {
        "apiVersion": RBAC,
        "kind": "RoleBinding" if "namespace" in meta else "ClusterRoleBinding",
        "metadata": meta,
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": role["kind"],
            "name": role["metadata"]["name"],
        },
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}],
    }
