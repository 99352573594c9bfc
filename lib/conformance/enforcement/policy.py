# SPDX-License-Identifier: Apache-2.0
"""The ``policy`` fixture: the policies of a test's manifest, filled in, applied, and always removed
again. Calico's objects are written by the API or by calicoctl, Kubernetes' objects by the API.
Every write is guarded."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from conformance.enforcement.applied_objects import GROUP, AppliedObjects
from conformance.errors import SuiteError, UsageProblem
from conformance.expect.figures import PolicyChange
from conformance.kube import manifest
from conformance.kube.changes import reference
from conformance.kube.client import Obj
from conformance.model.change import ObjectRef
from conformance.pods.relabel import IRRELEVANT
from conformance.pods.roles import MANIFESTS
from conformance.policy import placeholders
from conformance.policy.placeholders import Named

TIER = "Tier"
CLUSTER = "ClusterNetworkPolicy"
ACCOUNT = "ServiceAccount"


class Policy:
    """The policies of a manifest, in a namespace, and the tiers that they are in."""

    def __init__(
        self,
        path: str,
        namespace: str,
        applied: AppliedObjects,
        *,
        attach: Callable[[str, str], object],
    ) -> None:
        self._path = path
        self._namespace = namespace
        self._applied = applied
        self._attach = attach
        self.change: PolicyChange | None = None
        """The newest policy that the API server has accepted."""

    def apply(self, *, into: str = "", **named: Named) -> None:
        """Apply the policies with these values for their placeholders:
        ``policy.apply(server=server)``.

        ``into``: the worker's namespace that gets the policies; empty: the namespace of its pods.
        Raise UsageProblem (placeholders), MissingCapability (Calico policies cannot be written
        here), GuardRefused, ApiRefused (the cluster does not accept a policy).
        """
        into = into or self._namespace
        objects = manifest.load(MANIFESTS / self._path)
        idle = placeholders.unused(objects, list(named))
        if idle:
            raise UsageProblem(f"manifest {self._path} has no placeholder for {', '.join(idle)}")
        known = placeholders.values(namespace=into, run=self._applied.changes.run.run, **named)
        filled = placeholders.fill(objects, known, where=self._path)
        self._attach("policies in force", manifest.dump(filled))
        self._write(filled, into)
        self.change = PolicyChange(
            what=", ".join(target.label for target in self._applied.objects),
            at=time.monotonic(),
            enforced_at=_side(filled),
        )

    def filled(self, *, into: str = "", **named: Named) -> Later:
        """Return a change that applies the policies with these values for their placeholders;
        expectations make the change. The arguments are those of :meth:`apply`."""
        return Later(functools.partial(self.apply, into=into, **named))

    def stir(self) -> None:
        """Make changes of policies that must have no effect on the test's pods.

        All policies are deleted and created again, and each is labelled and annotated. Then
        policies that select no pod of the test are created, deleted, and created again.
        """
        there = [(target.namespace, obj) for target, obj in self._applied.objects.items()]
        change = self.change
        self.remove()
        for mark in ({}, {IRRELEVANT: "yes"}):
            for into, obj in there:
                given = {
                    key: {**obj["metadata"].get(key, {}), **mark}
                    for key in ("labels", "annotations")
                }
                self._write([{**obj, "metadata": {**obj["metadata"], **given}}], into)
        calico = any(target.api_version.startswith(GROUP) for target in self._applied.objects)
        name = "calico" if calico else "kubernetes"
        beside = manifest.load(MANIFESTS / "policy/beside" / f"{name}.yaml")
        before = set(self._applied.objects)
        self._write(beside, self._namespace)
        self._remove([target for target in self._applied.objects if target not in before])
        self._write(beside, self._namespace)
        self.change = change

    def _write(self, objects: Sequence[Obj], into: str | None) -> None:
        for obj in objects:
            is_cluster_scoped = obj["kind"] in {TIER, CLUSTER} or "Global" in obj["kind"]
            target = reference(obj, None if is_cluster_scoped else into)
            self._applied.apply(target, obj, f"the test's policy, {self._path}")

    def remove(self) -> None:
        """Delete the applied policies, newest first, and wait until they are gone. The order
        matters since a tier with policies cannot be deleted.

        Raise EnvironmentBroken if an object stays.
        """
        self._remove(list(self._applied.objects))

    def without(self, name: str) -> Later:
        """Return a change that removes one policy; expectations make the change. ``name`` is the
        policy's name in the manifest."""
        return Later(functools.partial(self.withdraw, name))

    def withdraw(self, name: str) -> None:
        """Remove a single policy, as :meth:`remove` does. Raise UsageProblem if no policy of that
        name was applied."""
        named = [target for target in self._applied.objects if target.name == name]
        if not named:
            raise UsageProblem(f"no policy {name} of manifest {self._path} is applied")
        self._remove(named)

    def _remove(self, targets: Sequence[ObjectRef]) -> None:
        errors: list[SuiteError] = []
        labels = ", ".join(target.label for target in targets)
        for target in reversed(targets):
            try:
                # not every user may read service accounts, so nothing waits for their removal
                self._applied.remove(target, "its test is over", wait=target.kind != ACCOUNT)
            except SuiteError as error:
                errors.append(error)
        if errors:
            raise errors[0]
        if self.change is not None and labels:
            self.change = replace(self.change, what=f"removal of {labels}", at=time.monotonic())

    @property
    def names(self) -> list[str]:
        """Return the names of the policies that are or will be applied in this namespace, without
        tiers."""
        known = placeholders.values(namespace=self._namespace, run=self._applied.changes.run.run)
        objects = [obj for obj in manifest.load(MANIFESTS / self._path) if obj["kind"] != TIER]
        return [placeholders.filled_text(obj["metadata"]["name"], known) for obj in objects]

    def in_force(self) -> list[str]:
        """Return the applied policies with their age: ``NetworkPolicy ns/allow-friend
        (projectcalico.org/v3), applied 31 s ago``.
        """
        now = time.monotonic()
        times = self._applied.times
        return [
            f"{target.label}, applied {now - times[target]:.0f} s ago"
            for target in self._applied.objects
        ]


@dataclass(frozen=True)
class Later:
    """A change of a manifest's policies that is not made yet; an expectation makes the change."""

    apply: Callable[[], None]


def _side(policies: Sequence[Obj]) -> Literal["source", "target", "both"]:
    """Return the end at which policies of these types are enforced: ingress at the target, egress
    at the source."""
    specs = [obj.get("spec") or {} for obj in policies if obj["kind"] != TIER]
    types = {
        type_
        for spec in specs
        for type_ in spec.get("types") or spec.get("policyTypes") or ["Ingress"]
    }
    if types == {"Egress"}:
        return "source"
    return "target" if types == {"Ingress"} else "both"
