# SPDX-License-Identifier: Apache-2.0
"""Namespaces that a cluster's owner has prepared for runs with ``--namespaces-prefix``.

Their names, whether a run may use them, and how a run leaves them. A run never creates, deletes or
labels such a namespace.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import count

from conformance.errors import EnvironmentBroken, UsageProblem
from conformance.kube.changes import Changes, reference
from conformance.kube.client import Kube, Obj
from conformance.kube.ownership import (
    MANAGED_BY,
    RUN_LABEL,
    WATCH,
    WORKERS,
    Ownership,
    is_of,
    labels_of,
)
from conformance.kube.refused import ApiRefused
from conformance.model.counted import counted
from conformance.settings import prefix_problem
from conformance.timing import until

BASELINE = {"pod-security.kubernetes.io/enforce": "baseline"}
ELSEWHERE = {"conformance/team": "elsewhere"}
"""Labels by which policies select a worker's second namespace."""
OF_A_WORKER: Mapping[str, Mapping[str, str]] = {
    "": {}, "-elsewhere": ELSEWHERE, "-world-a": {"team": "a"}, "-world-b": {"team": "b"}, "-world-c": {},
}  # fmt: skip
"""The labels by which policies select a worker's namespaces, by the endings of the namespaces'
names."""
OF_A_RUN: Mapping[str, Mapping[str, str]] = {
    f"-{WATCH}": {},
    f"-{WATCH}-elsewhere": ELSEWHERE,
    "-prepull": {},
}
"""The labels of namespaces that a run has only once, by the endings of the namespaces' names."""
MADE = (
    ("networking.k8s.io/v1", "NetworkPolicy"), ("projectcalico.org/v3", "NetworkPolicy"),
    ("projectcalico.org/v3", "StagedNetworkPolicy"), ("projectcalico.org/v3", "StagedKubernetesNetworkPolicy"),
    ("projectcalico.org/v3", "NetworkSet"), ("v1", "Service"),
    ("discovery.k8s.io/v1", "EndpointSlice"), ("apps/v1", "Deployment"), ("apps/v1", "DaemonSet"),
    ("v1", "Pod"), ("v1", "ServiceAccount"), ("v1", "ConfigMap"),
)  # fmt: skip
"""Kinds that a run creates in namespaces, in the order of their removal."""
HOLDS = "probes"
"""The ConfigMap that a run creates first in a namespace."""


def needed(prefix: str, workers: int) -> dict[str, dict[str, str]]:
    """Return the namespaces that a run with this number of workers uses, with the labels by which
    policies select them.

    Raise UsageProblem if names cannot begin with the prefix.
    """
    if problem := prefix_problem(prefix) or (
        "" if 0 < workers < 100 else f"{workers} workers, expected 1 to 99"
    ):
        raise UsageProblem(f"prefix {prefix}: {problem}")
    found = {f"{prefix}{end}": dict(labels) for end, labels in OF_A_RUN.items()}
    for number in range(workers):
        found |= {
            f"{prefix}-{WORKERS}{number}{end}": dict(labels) for end, labels in OF_A_WORKER.items()
        }
    return found


def command(prefix: str, workers: int) -> str:
    """Return the command that prints the manifests of prepared namespaces."""
    return f"calico-conformance namespaces {prefix} --workers {workers} | kubectl apply -f -"


def not_prepared(own: Ownership, workers: int) -> str:
    """Return why no namespace is prepared for a worker, if namespaces are prepared for ``workers``
    workers.

    Return an empty string if the worker has prepared namespaces, or makes its own. A worker that
    replaces a dead worker gets the next number from xdist, and possibly no namespace is prepared
    for this number.
    """
    number = own.worker.removeprefix(WORKERS)
    if not own.prefix or not number.isdigit() or int(number) < workers:
        return ""
    return (
        f"no namespace {own.namespace} is prepared for worker {own.worker}, which replaces a "
        f"worker that died; prepare more:  {command(own.prefix, int(number) + 1)}"
    )


def usable(kube: Kube, prefix: str) -> tuple[int, list[str]]:
    """Return how many workers can use the namespaces with a prefix, and the fault of the first
    namespace that cannot be used.

    Raise ApiRefused, ApiUnreachable.
    """
    there = {obj["metadata"]["name"]: obj for obj in kube.objects("v1", "Namespace")}
    workers = next(number for number in count() if f"{prefix}-{WORKERS}{number}" not in there)
    wanted = needed(prefix, max(1, workers))
    problems = [
        f"{name} {why}"
        for name, labels in wanted.items()
        if (why := _unfit(there.get(name), labels))
    ]
    if problems:
        text = f"{problems[0]}{f' (and {len(problems) - 1} more)' if problems[1:] else ''}"
        return workers, [
            f"--namespaces-prefix {prefix}: namespace {text}; make them:  {command(prefix, workers or 2)}"
        ]
    taken = [pod for name in wanted for pod in kube.objects("v1", "Pod", name)]
    return workers, [_occupied(prefix, taken)] if taken else []


def _unfit(found: Obj | None, labels: Mapping[str, str]) -> str:
    if found is None:
        return "does not exist"
    if found["metadata"].get("deletionTimestamp"):
        return "is being deleted"
    lacks = [
        f"{key}={value}" for key, value in labels.items() if labels_of(found).get(key) != value
    ]
    return f"lacks the label {', '.join(lacks)}, by which policies select it" if lacks else ""


def _occupied(prefix: str, pods: list[Obj]) -> str:
    meta = pods[0]["metadata"]
    labels = labels_of(pods[0])
    what = f"--namespaces-prefix {prefix}: namespace {meta['namespace']} is not empty: pod {meta['name']}"
    what += f" ({counted(len(pods), 'pod')} in all)" if pods[1:] else ""
    if labels.get(MANAGED_BY[0]) != MANAGED_BY[1] or RUN_LABEL not in labels:
        return (
            f"{what} does not belong to the suite; nothing was changed: remove it, "
            "or prepare namespaces of another prefix"
        )
    return (
        f"{what} belongs to run {labels[RUN_LABEL]}; wait for that run, or, if it is dead, run:  "
        f"pytest --restore --namespaces-prefix={prefix}"
    )


def objects_of(
    kube: Kube, namespaces: Iterable[str], run: str = "", kinds: Iterable[tuple[str, str]] = MADE
) -> Iterator[Obj]:
    """Yield the objects that a run made in these namespaces and that still exist. An empty ``run``
    means any run. Raise ApiRefused, ApiUnreachable."""
    labels = f"{MANAGED_BY[0]}={MANAGED_BY[1]},{f'{RUN_LABEL}={run}' if run else RUN_LABEL}"
    for namespace in namespaces:
        for api_version, kind in kinds:
            if kube.discovery.serves(api_version, kind):
                found = kube.objects(api_version, kind, namespace, labels=labels)
                yield from (obj for obj in found if is_of(obj) and is_of(obj, run))


def of_prefix(kube: Kube, prefix: str) -> list[str]:
    """Return the existing namespaces with a prefix."""
    names = [str(obj["metadata"]["name"]) for obj in kube.objects("v1", "Namespace")]
    return [name for name in names if name.startswith(f"{prefix}-")]


def hold(changes: Changes, obj: Obj, why: str, namespace: str) -> None:
    """Create the object by which a run reserves a namespace. Raise EnvironmentBroken if another run
    has reserved it."""
    try:
        changes.create(obj, why, namespace=namespace)
    except ApiRefused as refusal:
        if not refusal.already_exists:
            raise
        there = changes.kube.get(obj["apiVersion"], obj["kind"], obj["metadata"]["name"], namespace)
        if not changes.run.owns(there):
            run = labels_of(there).get(RUN_LABEL, "(not known)")
            raise EnvironmentBroken(
                f"namespace {namespace} is in use by run {run}; nothing was changed in it"
            ) from None


def vacate(changes: Changes, namespaces: Iterable[str], *, within: float, every: float) -> None:
    """Remove the run's objects from these namespaces and wait until its pods are gone.

    Raise EnvironmentBroken with the names of the pods that stay, ApiRefused, ApiUnreachable.
    """
    spaces = sorted(namespaces)
    run = changes.run.run
    for obj in objects_of(changes.kube, spaces, run):
        changes.delete(reference(obj), "the run is over")
    settled = until(
        lambda: list(objects_of(changes.kube, spaces, run, kinds=(("v1", "Pod"),))),
        lambda left: not left,
        within=within,
        every=every,
        description="the run's pods are gone",
    )
    if settled.last:
        left = ", ".join(reference(obj).label for obj in settled.last)
        raise EnvironmentBroken(f"objects still exist {within:.0f} s after their deletion: {left}")
