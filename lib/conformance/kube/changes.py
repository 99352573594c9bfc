# SPDX-License-Identifier: Apache-2.0
"""Every write to the cluster: guarded, signed, described; with ``dry_run`` described instead of
made.

It does not journal or restore; callers that journal wrap ``Changes.make``.
"""

import json
from collections.abc import Callable
from typing import Any

from conformance.errors import EnvironmentBroken, UsageProblem
from conformance.kube import guard
from conformance.kube.client import APPLY_PATCH, FIELD_MANAGER, JSON_PATCH, MERGE_PATCH, Kube, Obj
from conformance.kube.fields import mapping_at, value_at
from conformance.kube.ownership import Ownership, labels_of
from conformance.kube.refused import ApiRefused
from conformance.kube.waits import Waits
from conformance.model.change import Change, ObjectRef

MANAGER = {"fieldManager": FIELD_MANAGER}
CALICO = "projectcalico.org/"
"""The API group that Calico's own API server serves behind the aggregation layer."""


def reference(obj: Obj, namespace: str | None = None) -> ObjectRef:
    """Return the reference of an object; ``namespace`` is for objects that do not name theirs."""
    meta = obj["metadata"]
    return ObjectRef(
        api_version=obj["apiVersion"],
        kind=obj["kind"],
        name=meta["name"],
        namespace=meta.get("namespace") or namespace,
    )


def pod_reference(pod: Obj) -> ObjectRef:
    """Return the reference of a pod; pods from lists lack apiVersion and kind."""
    return reference({"apiVersion": "v1", "kind": "Pod", **pod})


class Changes:
    """Makes a run's changes on a cluster. Thread-safe.

    ``tell`` receives a line for each change that is not made because of ``dry_run``.
    """

    def __init__(
        self,
        kube: Kube,
        run: Ownership,
        *,
        dry_run: bool = False,
        tell: Callable[[str], None] = print,
    ) -> None:
        self.kube = kube
        self.run = run
        self.dry_run = dry_run
        self.tell = tell
        self.waits = Waits(kube)
        self.made: list[Change] = []
        self.uids: set[str] = set()
        """Uids of the objects in ``made``."""
        self.kept: dict[ObjectRef, Obj] = {}
        """Policies, Services and namespaces as the server accepted them, until they are deleted:
        other users should not change them."""

    def make(self, change: Change) -> Obj | None:
        """Make the change. Return the object as the server now has it; None for deletions,
        evictions and dry runs. Raise GuardRefused, ApiRefused, ApiUnreachable, MissingCapability
        (kind not served).
        """
        target = change.target
        guarded = target.kind in (*guard.CALICO_GLOBAL, *guard.ADMIN, guard.TIER)
        current = None
        if guarded and change.verb in ("patch", "delete"):
            current = self.kube.find(target.api_version, target.kind, target.name, target.namespace)
        guard.check(change, self.run, current, self.kube.access.namespace)
        if self.dry_run:
            self.tell(f"dry run: {change.label}")
            if (
                change.body is not None and target.kind != "Secret"
            ):  # a secret's content belongs in no log
                self.tell(json.dumps(change.body, indent=2))
            return None
        if change.verb == "delete":
            for one in [one for one in list(self.kept) if target in (one, _home(one))]:
                self.kept.pop(one, None)
        done = self._send(change)
        if done and (target.kind.endswith("Policy") or target.kind in ("Namespace", "Service")):
            self.kept[target] = done
        self.made.append(change)
        return done

    def _send(self, change: Change) -> Obj | None:
        kube = self.kube
        target = change.target
        resource = kube.resource(target.api_version, target.kind)
        one = kube.path(resource, target.namespace, target.name)
        one += f"/{change.subresource}" if change.subresource else ""
        if change.verb == "delete":
            self._delete(one, change.body)
            return None
        if change.verb == "evict":
            kube.request("POST", f"{one}/eviction", body=_eviction(target) | (change.body or {}))
            return None
        if change.verb == "patch":
            answer: Obj = self._patch(one, change.body)
        else:
            body = self.run.sign(change.body or {})
            answer = self._put(change, kube.path(resource, target.namespace), one, body)
        self.uids.add(str(value_at(answer, "metadata", "uid") or ""))
        return answer

    def _delete(self, one: str, options: Any) -> None:
        try:
            self.kube.request("DELETE", one, body=options, repeat=True)
        except ApiRefused as refusal:
            if not refusal.not_found:
                raise

    def _patch(self, one: str, body: Any) -> Any:
        """Send a JSON patch (a list) or a merge patch. After an error that may pass, a merge patch
        is sent again unless it names a resourceVersion."""
        kind = JSON_PATCH if isinstance(body, list) else MERGE_PATCH
        same = isinstance(body, dict) and "resourceVersion" not in mapping_at(body, "metadata")
        return self.kube.request(
            "PATCH", one, query=MANAGER, body=body, content_type=kind, repeat=same
        )

    def _put(self, change: Change, collection: str, one: str, body: Obj) -> Any:
        """Create, apply or replace a whole object."""
        if change.verb == "create":
            return self._create(collection, one, body)
        if change.verb == "replace":
            return self.kube.request("PUT", one, query=MANAGER, body=body)
        if change.target.api_version.startswith(CALICO):
            return self._create_or_replace(change, collection, one, body)
        return self.kube.request(
            "PATCH",
            one,
            query={**MANAGER, "force": "true"},
            body=body,
            content_type=APPLY_PATCH,
            repeat=True,
        )

    def _create(self, collection: str, one: str, body: Obj) -> Any:
        """Create an object. After a server error the request is repeated; if the earlier request
        has created the object, return that object.
        """
        try:
            return self.kube.request("POST", collection, query=MANAGER, body=body, repeat=True)
        except ApiRefused as refusal:
            if not refusal.already_exists or refusal.tries == 1:
                raise
            made = self.kube.read(one)
            ours = self.run.owns(made) and labels_of(made).items() >= self.run.labels.items()
            if not ours or made["metadata"].get("deletionTimestamp"):
                raise
            return made

    def _create_or_replace(self, change: Change, collection: str, one: str, body: Obj) -> Any:
        """Create an object of Calico's API server, or replace it if this run created it before.

        Calico's API server cannot be used with server-side apply: v3.32.0 answers 404 for objects
        that do not exist (projectcalico/calico#12841), and releases up to v3.21 accept no YAML
        (projectcalico/calico#4959).
        """
        target = change.target
        try:
            return self.kube.request("POST", collection, query=MANAGER, body=body, repeat=True)
        except ApiRefused as refusal:
            if not refusal.already_exists:
                raise
        there = self.kube.get(target.api_version, target.kind, target.name, target.namespace)
        if not self.run.owns(there):
            raise EnvironmentBroken(
                f"{target.label} exists and does not belong to this run (it lacks the labels of run {self.run.run}); "
                "it was not changed; remove it, or choose another run ID"
            )
        version = there["metadata"].get("resourceVersion")
        return self.kube.request(
            "PUT",
            one,
            query=MANAGER,
            body=body | {"metadata": {**body["metadata"], "resourceVersion": version}},
        )

    def create(
        self, obj: Obj, why: str, *, namespace: str | None = None, foreign: bool = False
    ) -> Obj | None:
        return self.make(self._change("create", obj, why, namespace, foreign))

    def apply(
        self, obj: Obj, why: str, *, namespace: str | None = None, foreign: bool = False
    ) -> Obj | None:
        return self.make(self._change("apply", obj, why, namespace, foreign))

    def _change(
        self, verb: Any, obj: Obj, why: str, namespace: str | None, foreign: bool
    ) -> Change:
        target = reference(obj, namespace)
        return Change(
            verb=verb, target=target, why=why, body=obj, cluster_scoped_or_foreign=foreign
        )

    def patch(
        self, target: ObjectRef, patch: Any, why: str, *, foreign: bool = False
    ) -> Obj | None:
        """Change an object by a merge patch (a dict) or a JSON patch (a list)."""
        return self.make(
            Change(
                verb="patch", target=target, why=why, body=patch, cluster_scoped_or_foreign=foreign
            )
        )

    def delete(
        self, target: ObjectRef, why: str, *, grace: int | None = None, foreign: bool = False
    ) -> None:
        """Delete an object and its dependents; do nothing if it does not exist."""
        body: Obj = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        if grace is not None:
            body["gracePeriodSeconds"] = grace
        self.make(
            Change(
                verb="delete", target=target, why=why, body=body, cluster_scoped_or_foreign=foreign
            )
        )

    def delete_and_wait(
        self,
        target: ObjectRef,
        why: str,
        *,
        within: float,
    ) -> None:
        """Delete an object and wait until it is gone. Raise EnvironmentBroken, with the object's
        finalizers, if the object stays."""
        self.delete(target, why)
        if not self.dry_run:
            self.waits.gone(target, within=within)

    def eviction_refusal(self, target: ObjectRef) -> str:
        """Return the reason for which the server would refuse the eviction of a pod now, in the
        server's words; an empty string if it would not refuse.

        The request is an eviction with ``dryRun=All``: the server checks the disruption budgets,
        but evicts nothing. A dry run of the suite sends no request. Raise ApiRefused,
        ApiUnreachable.
        """
        if self.dry_run:
            return ""
        path = self.kube.path(
            self.kube.resource(target.api_version, target.kind), target.namespace, target.name
        )
        try:
            self.kube.request(
                "POST",
                f"{path}/eviction",
                query={"dryRun": "All"},
                body=_eviction(target),
                repeat=True,
            )
        except ApiRefused as refusal:
            if refusal.not_found:
                return ""
            if (
                refusal.code == 429 or "PodDisruptionBudget" in refusal.message
            ):  # 500: several budgets select the pod
                return refusal.explained
            raise
        return ""

    def tried_patch(self, target: ObjectRef, patch: Obj) -> Obj | None:
        """Return an object as the server would merge a patch into it; the server stores nothing
        (``dryRun=All``). Return None in a dry run of the suite, which sends no request. Raise
        ApiRefused, ApiUnreachable."""
        if self.dry_run:
            return None
        resource = self.kube.resource(target.api_version, target.kind)
        one = self.kube.path(resource, target.namespace, target.name)
        query = MANAGER | {"dryRun": "All"}
        found: Obj = self.kube.request(
            "PATCH", one, query=query, body=patch, content_type=MERGE_PATCH, repeat=True
        )
        return found

    def namespace(self, name: str, *, labels: dict[str, str] | None = None, why: str) -> None:
        """Create a namespace of this run, or find it if this run made it. A prepared namespace only
        has to exist.

        Raise UsageProblem if the namespace exists and is not this run's, EnvironmentBroken if it is
        being deleted, or was prepared and no longer exists.
        """
        found = self.kube.find("v1", "Namespace", name)
        if self.run.prefix:
            if found is None or found["metadata"].get("deletionTimestamp"):
                state = "is being deleted" if found else "does not exist"
                raise EnvironmentBroken(
                    f"namespace {name}, which the cluster's owner must prepare, {state}"
                )
            return
        if found is None:
            obj = {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {"name": name, "labels": labels or {}},
            }
            try:
                self.create(obj, why)
                return
            except ApiRefused as refusal:
                if not refusal.already_exists:
                    raise
            found = self.kube.get("v1", "Namespace", name)
        if not self.run.owns(found):
            raise UsageProblem(
                f"namespace {name} exists and does not belong to this run (it lacks the labels of run "
                f"{self.run.run}); nothing was changed in it; remove it, or choose another run ID"
            )
        if value_at(found, "status", "phase") == "Terminating":
            raise EnvironmentBroken(
                f"namespace {name} of this run is being deleted, but not by this run"
            )


def _home(target: ObjectRef) -> ObjectRef:
    return ObjectRef(api_version="v1", kind="Namespace", name=target.namespace or "")


def _eviction(target: ObjectRef) -> Obj:
    meta = {"name": target.name, "namespace": target.namespace}
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta}
