# SPDX-License-Identifier: Apache-2.0
"""Changes of policies through a run, as the API server's watches report them."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http import HTTPStatus

from conformance.expect.subjects.standing_watch import Edit
from conformance.foreign.snapshot import (
    KUBERNETES,
    admin_kinds,
    calico_api,
    is_twin,
    policy_in_event,
    spec_of,
    staged_kinds,
)
from conformance.kube.client import Kube, Obj
from conformance.kube.ownership import Ownership
from conformance.kube.reach import ApiGone
from conformance.kube.refused import ApiRefused, ApiUnreachable

VERBS = {"ADDED": "was created", "MODIFIED": "was changed", "DELETED": "was deleted"}
NOTHING = "metadata.name=no-such-object"
"""A field selector that selects nothing. A list request with this selector serves only to learn the
version."""


@dataclass
class PolicyEvents:
    """Records foreign policies, and objects that were added or removed, for one namespace of a
    run."""

    kube: Kube
    run: Ownership
    namespace: str
    """The namespace with the pods that the policies may select. The names of other workers'
    namespaces begin with it."""
    is_over: Callable[[], bool]
    """A function that returns whether the run has begun to remove its own policies."""
    seconds: float
    """The duration of one watch request, in seconds."""
    events: list[tuple[float, str]] = field(default_factory=list)
    """Pods and Services that were added or removed, each with the time (``time.monotonic``)."""
    edits: list[Edit] = field(default_factory=list)
    _policies: dict[str, tuple[str, Obj]] = field(default_factory=dict)
    """The kind of each policy and the policy itself, by uid."""

    def kinds(self) -> list[tuple[str, str]]:
        """Return API and kind of all served policies, of Tiers (which change their effect), of pods
        and of Services."""
        kinds = ("GlobalNetworkPolicy", "NetworkPolicy", "Tier")
        calico = calico_api(self.kube)
        served = {kind: (api, kind) for api, kind in reversed(admin_kinds(self.kube))}
        return [
            ("v1", "Pod"),
            ("v1", "Service"),
            (KUBERNETES, "NetworkPolicy"),
            *((calico, kind) for kind in kinds if calico),
            *staged_kinds(self.kube, calico),
            *served.values(),
        ]

    def follow(self, api: str, kind: str) -> None:
        """Record the events of a kind until the run is over, as far as the user may read them."""
        since = ""
        while not self.is_over():
            try:
                if not since:
                    fields = "" if kind.endswith("Policy") else NOTHING
                    objects, since = self.kube.objects_at(api, kind, fields=fields)
                    self._policies |= {obj["metadata"]["uid"]: (kind, obj) for obj in objects}
                for event in self.kube.watch(api, kind, None, since, seconds=self.seconds):
                    since = event["object"]["metadata"].get("resourceVersion") or since
                    if verb := VERBS.get(event["type"]):
                        self.record(api, kind, event["object"], verb)
            except ApiRefused as refused:
                if refused.code != HTTPStatus.GONE and not refused.passing:
                    return
                since = ""
            except ApiGone:
                return
            except ApiUnreachable:  # the API server is expected to return
                continue

    def record(self, api: str, kind: str, obj: Obj, verb: str) -> None:
        """Record one event."""
        meta = obj["metadata"]
        name = "/".join(filter(None, (meta.get("namespace"), meta["name"])))
        node = spec_of(obj).get("nodeName")
        text = f"{kind} {name}{f' on node {node}' if node else ''} {verb}"
        if kind == "Tier":
            policies = list(self._policies.values())
            self._edited(
                api, text, [item for item in policies if spec_of(item[1]).get("tier") == name]
            )
        elif kind.endswith("Policy"):
            known = self._policies.pop(meta["uid"], None)
            is_gone = verb == VERBS["DELETED"]
            if not is_gone:
                self._policies[meta["uid"]] = (kind, obj)
            self._edited(api, text, [item for item in (known, (kind, obj)) if item])
            if is_gone or (known and known[1].get("spec") != obj.get("spec")):
                self._record_interference(obj, text)
        elif verb != VERBS["MODIFIED"]:
            self.events.append((time.monotonic(), text))

    def _record_interference(self, policy: Obj, text: str) -> None:
        """Record that another user edited or deleted a policy, if the policy is the run's own."""
        is_here = str(policy["metadata"].get("namespace")).startswith(self.namespace)
        if is_here and self.run.owns(policy) and not self.is_over():
            what = f"{text} by another user"
            self.edits.append(Edit(at=time.monotonic(), what=what, policies=()))

    def _edited(self, api: str, text: str, policies: Iterable[tuple[str, Obj]]) -> None:
        """Record a policy of another owner before and after its change, if it may select the run's
        pods."""
        found = [
            policy_in_event(self.kube, api, kind, obj)
            for kind, obj in policies
            if not self.run.owns(obj)
            and not is_twin(api, obj)
            and str(obj["metadata"].get("namespace") or self.namespace).startswith(self.namespace)
        ]
        if found:
            self.edits.append(Edit(at=time.monotonic(), what=text, policies=tuple(found)))
