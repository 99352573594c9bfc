# SPDX-License-Identifier: Apache-2.0
"""Pull secrets: copied from the namespace ``default`` into the namespaces of the suite's pods."""

from collections.abc import Mapping

from conformance.errors import EnvironmentBroken
from conformance.kube.changes import Changes
from conformance.kube.client import Kube, Obj
from conformance.kube.refused import ApiRefused
from conformance.kube.rights import Right, missing
from conformance.settings import Images

MOST_COPIES = 9
"""The maximum number of copies of a pull secret in a namespace: each interrupted attempt to prepare
the namespace left one."""


def copy_pull_secrets(
    kube: Kube, changes: Changes, images: Images, namespace: str
) -> dict[str, str]:
    """Copy the pull secrets of the namespace ``default``, so that kubelets can use them for a
    namespace's pods.

    Copy nothing into namespaces that the cluster's owner has prepared, because the owner has
    created the secrets there. Return a map of each secret's name to the name of its copy. Raise
    EnvironmentBroken if a secret cannot be read.
    """
    copies: dict[str, str] = {}
    for name in () if changes.run.prefix else images.all_pull_secrets:
        found = _pull_secret(kube, name)
        copy: Obj = {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": found.get("type"),
            "data": found.get("data") or {},
        }
        copies[name] = _copied(changes, copy, name, namespace)
    return copies


def _pull_secret(kube: Kube, name: str) -> Obj:
    """Read a pull secret. Raise EnvironmentBroken if no kubelet can pull with it."""
    try:
        found = kube.get("v1", "Secret", name, "default")
    except ApiRefused as refusal:
        raise EnvironmentBroken(
            f"pull secret {name} cannot be read in namespace default: {refusal.message}"
            " (the user needs the role of manifests/rbac/pull-secrets.yaml)"
        ) from refusal
    if not str(found.get("type")).startswith(
        "kubernetes.io/dockerc"
    ):  # dockercfg, dockerconfigjson
        raise EnvironmentBroken(
            f"pull secret {name} has type {found.get('type')}, which kubelets cannot use; create "
            "it with kubectl -n default create secret docker-registry"
        )
    return found


def unusable_pull_secrets(kube: Kube, images: Images) -> list[str]:
    """Return the reasons why pull secrets cannot be copied into the run's namespaces."""
    create = [Right("create", "secrets")] if images.all_pull_secrets else []
    reasons = [
        f"{kube.access.user} may not {right.label}, but pull secrets are copied into the run's "
        "namespaces; bind the role of manifests/rbac/pull-secrets.yaml"
        for right in missing(kube, create)
    ]
    for name in images.all_pull_secrets:
        try:
            _pull_secret(kube, name)
        except EnvironmentBroken as error:
            reasons.append(str(error))
    return reasons


def _copied(changes: Changes, copy: Obj, name: str, namespace: str) -> str:
    """Copy a pull secret and return the copy's name: NAME, or NAME-2 and so on if the name is
    taken.

    The copy is only ever created, never patched. The right to patch secrets would also be the right
    to read them, since a PATCH returns the object.
    """
    for number in range(1, MOST_COPIES + 1):
        called = name if number == 1 else f"{name}-{number}"
        try:
            changes.create(
                {**copy, "metadata": {"name": called}},
                "lets the kubelets pull its images",
                namespace=namespace,
            )
        except ApiRefused as refusal:
            if not refusal.already_exists:
                raise
        else:
            return called
    raise EnvironmentBroken(
        f"namespace {namespace} has {MOST_COPIES} copies of pull secret {name} already"
    )


def pull_with(spec: Obj, copies: Mapping[str, str]) -> None:
    """Make a pod spec refer to the copies of its pull secrets."""
    for reference in spec.get("imagePullSecrets") or ():
        reference["name"] = copies.get(reference["name"], reference["name"])
