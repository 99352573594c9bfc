"""A user of the suite's own on a cluster, and a kubeconfig with its token and nothing of who made it.

It is what ``kubectl apply -f manifests/rbac``, ``create token`` and a kubeconfig written by hand come to.
"""

import base64
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import yaml

from conformance import product
from conformance.kube.changes import Changes
from conformance.kube.client import Kube, Obj
from conformance.kube.manifest import load
from conformance.kube.ownership import Shared

ROLES = ("standard", "read-only", "disruptive")
"""Roles of ``manifests/rbac``, of which a user has one; the first by default."""
BESIDE = ("calicoctl", "pull-secrets", "rancher")
"""What a user may have beside it."""
NAMESPACE = "calico-conformance"
RBAC = "rbac.authorization.k8s.io/v1"


@dataclass(frozen=True, kw_only=True)
class Runner:
    """A ServiceAccount that was given its roles, with a token."""

    name: str
    token: str
    ends: datetime


def runner(kube: Kube, role: str, beside: Sequence[str], seconds: int) -> Runner:
    """Make the ServiceAccount, bind its roles and ask for a token of so many seconds.

    Who already has a user of another role gets a second one.  Raises ApiRefused, ApiUnreachable.
    """
    account = "runner" if role == ROLES[0] else f"runner-{role}"
    changes = Changes(kube, Shared(account))
    for obj in _objects(account, role, beside):
        changes.apply(obj, "a user to run the suite as", namespace=obj["metadata"].get("namespace"), foreign=True)
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token"
    asked = {
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": seconds},
    }  # fmt: skip
    status = json.loads(kube.request("POST", path, body=asked))["status"]
    ends = datetime.fromisoformat(str(status["expirationTimestamp"]).replace("Z", "+00:00"))
    return Runner(name=account, token=status["token"], ends=ends)


def kubeconfig(kube: Kube, user: Runner) -> str:
    """As YAML: the way to the cluster as ``kube`` goes it, and the user's token."""
    configuration = kube.access.configuration
    cluster: Obj = {"server": kube.access.server}
    if configuration.ssl_ca_cert:
        authority = Path(configuration.ssl_ca_cert).read_bytes()
        cluster["certificate-authority-data"] = base64.b64encode(authority).decode()
    if not configuration.verify_ssl:
        cluster["insecure-skip-tls-verify"] = True
    for key, value in (("tls-server-name", configuration.tls_server_name), ("proxy-url", configuration.proxy)):
        cluster |= {key: value} if value else {}
    context = {"cluster": NAMESPACE, "user": user.name}
    content = {
        "apiVersion": "v1", "kind": "Config", "current-context": NAMESPACE,
        "clusters": [{"name": NAMESPACE, "cluster": cluster}],
        "users": [{"name": user.name, "user": {"token": user.token}}],
        "contexts": [{"name": NAMESPACE, "context": context}],
    }  # fmt: skip
    return str(yaml.safe_dump(content, sort_keys=False))


def _objects(account: str, role: str, beside: Sequence[str]) -> Iterator[Obj]:
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account, "namespace": NAMESPACE}}
    for name in (role, *beside):
        for granted in load(product.MANIFESTS / "rbac" / f"{name}.yaml"):
            yield granted
            if not granted["kind"].endswith("Role"):
                continue
            meta = granted["metadata"]
            bound = {**meta, "name": f"{NAMESPACE}-{account}" + (f"-{name}" if name != role else "")}
            yield {
                "apiVersion": RBAC, "kind": f"{granted['kind']}Binding", "metadata": bound,
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": granted["kind"], "name": meta["name"]},
                "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}],
            }  # fmt: skip
