# SPDX-License-Identifier: Apache-2.0
"""The limits of a run's changes: no change of this suite may affect anything outside its run.

A cluster-scoped policy is only made if its own selection, read from the object, is limited to the
run's namespaces. The example policies in Calico's documents, with ``selector: all()``, would cut
off every pod of the cluster. The guard accepts a selection only if it can prove the limit; a form
that it cannot read is refused. Changes that may cost a Windows node its network are refused
whatever they declare (:mod:`conformance.kube.address_guard`).
"""

from collections.abc import Mapping
from typing import Any

from conformance.errors import SuiteError
from conformance.kube import address_guard
from conformance.kube.fields import list_at, mapping_at
from conformance.kube.ownership import RUN_LABEL, RUNNER_NAMESPACE, Ownership, Shared
from conformance.model.change import Change
from conformance.policy.selectors import Meaning, read

CALICO_GLOBAL = ("GlobalNetworkPolicy", "StagedGlobalNetworkPolicy")
ADMIN = ("AdminNetworkPolicy", "BaselineAdminNetworkPolicy", "ClusterNetworkPolicy")
TIER = "Tier"
FOREVER_REFUSED = ("HostEndpoint",)
"""Kinds that no namespace limits: without a profile that allows traffic, such an object denies a
node everything but failsafe ports."""
GUARDED = (*CALICO_GLOBAL, TIER, *ADMIN, *FOREVER_REFUSED)
"""Kinds that are judged by their selectors, whatever their namespace is."""
FOR_HOSTS = ("applyOnForward", "preDNAT", "doNotTrack")
"""Fields of a policy that applies to host endpoints as well."""
NAMESPACE_KEYS = ("projectcalico.org/name", "kubernetes.io/metadata.name")
POD_NAMESPACE_KEYS = ("projectcalico.org/namespace",)


class GuardRefused(SuiteError):
    """A change that this suite must not make; the message names the rule and the alternative."""


def check(
    change: Change, run: Ownership, current: Mapping[str, Any] | None = None, own: str = ""
) -> None:
    """Raise GuardRefused unless the change stays inside the run.

    ``current`` is the present object, for patches: the merged result is judged. ``own``: the
    namespace of the pod in which the run itself runs; empty if it runs in no pod.
    """
    problem = (
        _outside_prefix(change, run)
        or address_guard.danger(change, run)
        or (
            _of_the_cluster(change, run, current)
            if change.target.kind in GUARDED
            else _of_a_namespace(change, run, own)
        )
    )
    if problem:
        raise GuardRefused(f"refused to {change.label}: {problem}")


def _outside_prefix(change: Change, run: Ownership) -> str:
    target = change.target
    if run.prefix and (target.kind == "Namespace" or not run.has_namespace(target.namespace)):
        return (
            f"with --namespaces-prefix {run.prefix} a run changes only what is in the "
            f"namespaces {run.prefix}-..., and never a namespace itself"
        )
    return ""


def _of_the_cluster(change: Change, run: Ownership, current: Mapping[str, Any] | None) -> str:
    """Return why a change of a GUARDED kind affects something outside the run; an empty string if
    it does not."""
    target = change.target
    if target.kind == TIER and not run.has_namespace(target.name):
        return (
            "a tier affects every policy in it; give the tier a name that begins with a "
            f"namespace of this run ({run.namespace}-...), so that it holds only the run's policies"
        )
    if change.verb == "delete":
        foreign = current is not None and not run.owns(dict(current))
        label = f"{RUN_LABEL}={run.run}"
        return (
            f"the object lacks label {label}, so it does not belong to this run" if foreign else ""
        )
    if target.kind == TIER:
        return ""
    body = change.body or {}
    if change.verb == "patch":
        body = merged(current or {}, body)
    return unlimited(target.kind, body.get("spec") or {}, run)


def _of_a_namespace(change: Change, run: Ownership, own: str) -> str:
    """Return why a change of a kind that is not GUARDED affects something outside the run, although
    it does not declare this. Return an empty string if it does not."""
    target = change.target
    namespace = target.name if target.kind == "Namespace" else target.namespace
    if namespace in (RUNNER_NAMESPACE, own or RUNNER_NAMESPACE) and not isinstance(run, Shared):
        return (
            f"namespace {namespace} holds the suite's users or this run's own pod; "
            "no run changes it"
        )
    if target.kind.endswith("Policy") and run.is_watched(namespace):
        return "no test may select the standing watch's pods"
    if run.has_namespace(namespace) or change.cluster_scoped_or_foreign:
        return ""
    where = f"namespace {namespace}" if namespace else "the whole cluster"
    return (
        f"the change concerns {where}, which does not belong to this run ({run.namespace}); "
        "declare it with cluster_scoped_or_foreign=True"
    )


def merged(old: Any, patch: Any) -> Any:
    """Return the result of a JSON merge patch (RFC 7396)."""
    if not isinstance(patch, Mapping):
        return patch
    result = dict(old) if isinstance(old, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def unlimited(kind: str, spec: Mapping[str, Any], run: Ownership) -> str:
    """Return why a cluster-scoped policy's selection is not limited to the run; an empty string if
    it is."""
    if kind in FOREVER_REFUSED:
        return f"a {kind} concerns a node, which no run owns"
    if kind in ADMIN:
        return _admin(spec, run)
    hosts = next((field for field in FOR_HOSTS if spec.get(field)), "")
    if hosts and not limits(str(spec.get("selector") or ""), POD_NAMESPACE_KEYS, run):
        return (
            f"{hosts} makes the policy apply to host endpoints, too. No run owns these, and selector "
            f"{spec.get('selector')!r} may match their labels; add projectcalico.org/namespace == "
            f"'{run.namespace}' to the selector; only pods have this label"
        )
    for field, keys in (("namespaceSelector", NAMESPACE_KEYS), ("selector", POD_NAMESPACE_KEYS)):
        text = spec.get(field)
        if text and limits(str(text), keys, run):
            return ""
    return (
        f"its selection (selector {spec.get('selector')!r}, namespaceSelector {spec.get('namespaceSelector')!r}) "
        f"is not limited to this run's test namespaces (the standing watch's namespaces also have label {RUN_LABEL}); "
        f"add namespaceSelector: {NAMESPACE_KEYS[0]} == '{run.namespace}'"
    )


def _admin(spec: Mapping[str, Any], run: Ownership) -> str:
    subject = spec.get("subject") or {}
    selector = subject.get("namespaces") or mapping_at(subject, "pods", "namespaceSelector")
    labels = {key: [value] for key, value in mapping_at(selector, "matchLabels").items()}
    for rule in list_at(selector, "matchExpressions"):
        if rule.get("operator") == "In":
            labels.setdefault(rule["key"], list_at(rule, "values"))
    for key, values in labels.items():
        if values and all(_ours(key, value, NAMESPACE_KEYS, run) for value in values):
            return ""
    return (
        f"its subject {subject!r} is not limited to this run's test namespaces, which exclude the "
        f"standing watch's namespaces; select by {NAMESPACE_KEYS[1]}: {run.namespace}"
    )


def limits(text: str, keys: tuple[str, ...], run: Ownership) -> bool:
    """Return whether the structure of a Calico selector proves that it can only match the run;
    False if the selector cannot be parsed."""

    def within(key: str, values: frozenset[str]) -> bool:
        return bool(values) and all(_ours(key, value, keys, run) for value in values)

    def compare(key: str, operator: str, value: str) -> bool:
        return operator in ("==", "startswith") and _ours(
            key, value, keys, run, prefix=operator == "startswith"
        )

    limiting = Meaning[bool](
        everything=False,
        any_of=all,  # ``a || b`` limits if a and b limit
        all_of=any,  # ``a && b`` limits if a or b limits
        negated=lambda part: False,
        has=lambda key: False,
        within=within,
        compare=compare,
    )
    try:
        return read(text, limiting)
    except ValueError:
        return False


def _ours(
    key: str, value: str, keys: tuple[str, ...], run: Ownership, *, prefix: bool = False
) -> bool:
    """Return whether all namespaces of that name, or with that prefix, belong to the run, and none
    of them to its standing watch."""
    return key in keys and run.has_namespace(value) and not run.is_watched(value, prefix=prefix)
