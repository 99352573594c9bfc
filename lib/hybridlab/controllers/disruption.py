# SPDX-License-Identifier: Apache-2.0
"""PodDisruptionBudgets: how many pods are healthy, how many must be healthy, and how many may be
evicted now."""

from hybridlab.api.contract import Client, Obj
from hybridlab.controllers.cache import Caches
from hybridlab.controllers.deployments import share
from hybridlab.controllers.owned import controller_of, is_active, ready_since
from hybridlab.controllers.selectors import labels_of, matches
from hybridlab.controllers.times import timestamp
from hybridlab.controllers.work import Controller, Work

RESOURCE = "poddisruptionbudgets.policy"
DELAY = 0.005


class DisruptionBudgets(Controller):
    """The disruption controller."""

    def __init__(self, client: Client, caches: Caches) -> None:
        self._client = client
        self._budgets = caches.of(RESOURCE)
        self._pods = caches.of("pods")
        self._sets = caches.of("replicasets.apps")
        self.work = Work("disruption", self._sync, delay=DELAY)
        self._budgets.subscribe(self.note)
        self._pods.subscribe(self._on_pod)

    def _on_pod(self, pod: Obj | None, before: Obj | None) -> None:
        for found in (pod, before):
            for budget in self._budgets.within(found["metadata"]["namespace"]) if found else ():
                if found and matches(budget["spec"].get("selector"), labels_of(found)):
                    self.note(budget)

    async def _sync(self, key: tuple[str, str]) -> None:
        budget = self._budgets.get(*key)
        if budget is None:
            return
        before = budget.get("status") or {}
        known = before.get("disruptedPods") or {}
        status = self._status(budget, before, known)
        if status == {**{name: before.get(name) for name in status}, "disruptedPods": known}:
            return
        # A merge patch removes only the names that it lists as None.
        removing = {**dict.fromkeys(known), **status["disruptedPods"]} or None
        await self._client.patch(
            RESOURCE,
            key[1],
            {"status": {**status, "disruptedPods": removing}},
            key[0],
            subresource="status",
        )

    def _status(self, budget: Obj, before: Obj, known: Obj) -> Obj:
        """Return the status of a budget; ``known`` are the disrupted pods of the previous
        status."""
        meta = budget["metadata"]
        selector = budget["spec"].get("selector")
        active = {
            pod["metadata"]["name"]: pod
            for pod in self._pods.within(meta["namespace"])
            if matches(selector, labels_of(pod)) and is_active(pod)
        }
        disrupted = {name: when for name, when in known.items() if name in active}
        healthy = sum(
            ready_since(pod) is not None and name not in disrupted for name, pod in active.items()
        )
        expected, desired = self._demand(budget, list(active.values()))
        allowed = max(healthy - desired, 0) if expected else 0
        return {
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "disruptionsAllowed": allowed,
            "expectedPods": expected,
            "observedGeneration": meta["generation"],
            "disruptedPods": disrupted,
            "conditions": [_condition(before, allowed > 0, meta["generation"])],
        }

    def _demand(self, budget: Obj, pods: list[Obj]) -> tuple[int, int]:
        """Return the expected number of pods, and how many of them must be healthy."""
        spec = budget["spec"]
        least = spec.get("minAvailable")
        most = spec.get("maxUnavailable")
        if isinstance(least, int):
            return len(pods), least
        expected = self._wanted_replicas(pods)
        if most is not None:
            return expected, max(expected - share(most, expected, up=True), 0)
        return expected, share(least if least is not None else 1, expected, up=True)

    def _wanted_replicas(self, pods: list[Obj]) -> int:
        """Return the sum of the replicas that the pods' controllers request; a pod without a
        controller counts as one.
        """
        total = 0
        observed = set()
        for pod in pods:
            owner = controller_of(pod)
            found = self._sets.get(pod["metadata"]["namespace"], owner["name"]) if owner else None
            if owner is None or found is None:
                total += 1
            elif owner["uid"] not in observed:
                observed.add(owner["uid"])
                total += found["spec"].get("replicas", 1)
        return total


def _condition(before: Obj, allowed: bool, generation: int) -> Obj:
    known = next(
        (entry for entry in before.get("conditions") or () if entry["type"] == "DisruptionAllowed"),
        None,
    )
    value = "True" if allowed else "False"
    return {
        "type": "DisruptionAllowed",
        "status": value,
        "reason": "SufficientPods" if allowed else "InsufficientPods",
        "message": "",
        "observedGeneration": generation,
        "lastTransitionTime": known["lastTransitionTime"]
        if known and known["status"] == value
        else timestamp(),
    }
