"""Starts a lab whose own code is patched in one place: ``python patched_lab.py PATCH up ...``.

The patches are what no fault of the lab can be: they are about the one graph of policies that all Felixes share, or
about what was there before.  They live here and not in the lab, so that nothing that a user can start knows them;
test_patched_lab.py applies each and sees it take effect.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "lib"))

Written = Mapping[str, Any]
"""A policy's spec, or one of its rules or peers, in Calico's words."""
RUN = "calico-demo"
"""How the names of a run's namespaces begin: policies of the lab's own are not bent where that would end the run."""


def written(
    way: Callable[[Written, str], Written], also: Callable[[Any, Written], Any] = lambda policy, _: policy
) -> None:
    """Felix takes a policy for one that is written otherwise: ``way`` of its spec, ``also`` of what becomes of it."""
    from hybridlab.policy import admin_policy, kubernetes_policy, policy

    true = policy.from_spec

    def patched(key: Any, spec: Written, types: Any) -> Any:
        return also(true(key, way(spec, key.namespace), types), spec)

    for module in (policy, kubernetes_policy, admin_policy):
        module.from_spec = patched  # type: ignore[attr-defined]


def _with_rules(spec: Written, made: Callable[[Written], Iterable[Written]]) -> Written:
    return {
        **spec,
        **{way: [other for rule in spec.get(way) or () for other in made(rule)] for way in ("ingress", "egress")},
    }


def _with_peers(spec: Written, changed: Callable[[Written], Written]) -> Written:
    return _with_rules(
        spec, lambda rule: [{**rule, **{side: changed(rule.get(side) or {}) for side in ("source", "destination")}}]
    )


def either_selector(spec: Written, _: str) -> Written:
    """What one of a peer's two selectors selects is let in."""
    from hybridlab.policy.label_selectors import PODS_ONLY

    def made(rule: Written) -> list[Written]:
        peer = rule.get("source") or {}
        if not peer.get("selector") or not peer.get("namespaceSelector"):
            return [rule]
        own = {key: value for key, value in peer.items() if key != "namespaceSelector"}
        return [{**rule, "source": own}, {**rule, "source": {**peer, "selector": PODS_ONLY}}]

    return _with_rules(spec, made)


def accounts_of_everybody(spec: Written, _: str) -> Written:
    """A rule for service accounts is for everybody."""
    return _with_peers(spec, lambda peer: {key: value for key, value in peer.items() if key != "serviceAccounts"})


def accounts_of_nobody(spec: Written, _: str) -> Written:
    """No pod has a service account: a rule for some is for nobody."""

    def changed(peer: Written) -> Written:
        if not peer.get("serviceAccounts"):
            return peer
        nobody = " && ".join(filter(None, (peer.get("selector"), "has(account)")))
        return {**{key: value for key, value in peer.items() if key != "serviceAccounts"}, "selector": nobody}

    return _with_peers(spec, changed)


def all_namespaces_the_own(spec: Written, _: str) -> Written:
    """A rule's selector of all namespaces is taken for none: it is about the policy's own namespace."""
    return _with_peers(
        spec, lambda peer: {**peer, "namespaceSelector": peer.get("namespaceSelector", "").replace("all()", "")}
    )


def all_pods_nobody(spec: Written, namespace: str) -> Written:
    """A policy of the run's that is for all pods of its namespace is for none."""
    from hybridlab.policy.label_selectors import PODS_ONLY

    is_for_all = namespace.startswith(RUN) and spec.get("selector") in {PODS_ONLY, "all()"}
    return {**spec, "selector": "!all()"} if is_for_all else spec


def untracked_at_pods(spec: Written, _: str) -> Written:
    """An untracked policy, and one before DNAT, is taken for one without these words."""
    return {key: value for key, value in spec.items() if key not in {"doNotTrack", "preDNAT"}}


def on_forward_at_no_pods(spec: Written, _: str) -> Written:
    """A policy on forwarded traffic alone is taken for one for hosts: it selects no pod."""
    on_forward_alone = spec.get("applyOnForward") and not spec.get("doNotTrack") and not spec.get("preDNAT")
    return {**spec, "selector": "!all()"} if on_forward_alone else spec


def of_namesakes(policy: Any, spec: Written) -> Any:
    """A policy of the run's selects pods of other namespaces too that have the labels that it asks for."""
    from hybridlab.policy.selectors import parse

    reaches = policy.key.namespace.startswith(RUN) and spec.get("selector")
    return replace(policy, selector=parse(spec["selector"])) if reaches else policy


def rules(made: Callable[[Written], Iterable[Written]]) -> Callable[[Written, str], Written]:
    """Each rule is taken for others, or for none."""
    return lambda spec, _: _with_rules(spec, made)


def peers(changed: Callable[[Written], Written]) -> Callable[[Written, str], Written]:
    """Both ends of each rule are taken for others."""
    return lambda spec, _: _with_peers(spec, changed)


def _without(given: Written, *keys: str) -> Written:
    return {key: value for key, value in given.items() if key not in keys}


def listed(made: Callable[[list[Written]], list[Written]]) -> Callable[[Written, str], Written]:
    """The rules of each direction, as a list, are taken for another."""
    return lambda spec, _: {**spec, **{way: made(list(spec[way])) for way in ("ingress", "egress") if spec.get(way)}}


def selectors(text: Callable[[str], str]) -> Callable[[Written, str], Written]:
    """The texts of a policy's selectors, and of its rules', are taken for others."""

    def of(given: Written) -> Written:
        return {
            key: text(value) if key.lower().endswith("selector") and value else value for key, value in given.items()
        }

    return lambda spec, _: _with_peers(of(spec), of)


def egress_of_global_lost(spec: Written, namespace: str) -> Written:
    """A policy without a namespace has no rules for egress."""
    return spec if namespace else _without(spec, "egress")


def orders_reversed(spec: Written, _: str) -> Written:
    """The higher order goes first."""
    return spec if spec.get("order") is None else {**spec, "order": -spec["order"]}


WORDS: dict[str, Callable[[Written, str], Written]] = {
    "log-allows": rules(lambda rule: [{**rule, "action": "Allow"} if rule["action"] == "Log" else rule]),
    "nets-beside-selectors-ignored": peers(lambda peer: _without(peer, "nets") if peer.get("selector") else peer),
    "sources-of-egress-ignored": lambda spec, _: {
        **spec, "egress": [_without(rule, "source") for rule in spec.get("egress") or ()],
    },
    "either-means-both": selectors(lambda text: text.replace("||", "&&")),
    "egress-of-global-policies-lost": egress_of_global_lost,
    "orders-reversed": orders_reversed,
    "pass-allows": rules(lambda rule: [{**rule, "action": "Allow"} if rule["action"] == "Pass" else rule]),
    "first-net-only": peers(lambda peer: {**peer, "nets": peer["nets"][:1]} if peer.get("nets") else peer),
    "starts-with-means-equals": selectors(lambda text: text.replace("starts with", "==")),
    "source-ports-ignored": rules(
        lambda rule: [{**rule, "source": _without(rule.get("source") or {}, "ports", "notPorts")}]
    ),
    "last-rule-first": listed(lambda several: several[::-1]),
    "first-rule-only": listed(lambda several: several[:1]),
    "selectors-of-accounts-ignored": lambda spec, _: _without(spec, "serviceAccountSelector"),
    "numbers-of-protocols-mean-any": rules(
        lambda rule: [_without(rule, "protocol") if isinstance(rule.get("protocol"), int) else rule]
    ),
    "contains-means-equals": selectors(lambda text: text.replace("contains", "==")),
}  # fmt: skip
"""Ways to misread what a policy says, each shown by a world of policies."""


def updates(method: str, patched: Callable[..., None]) -> None:
    """Felix makes something else of an update: ``patched`` gets the true method, the graph and the update."""
    from hybridlab.policy.resolve import Graph

    true = getattr(Graph, method)
    setattr(Graph, method, lambda self, *update: patched(partial(true, self), self, *update))


def namespace_labels_stay(true: Any, graph: Any, name: str, labels: Any) -> None:
    """Felix knows the labels alone that a namespace had when it came."""
    if labels is None or name not in graph._namespaces:
        true(name, labels)


def namesakes_collide(true: Any, graph: Any, policy: Any) -> None:
    """A policy takes the place of one of its name in another namespace."""
    for key in list(graph._policies):
        if (key.name, key.kind) == (policy.key.name, policy.key.kind) and key.namespace != policy.key.namespace:
            graph.remove_policy(key)
    true(policy)


def edits_ignored(true: Any, graph: Any, policy: Any) -> None:
    """A policy of Kubernetes stays what it was when it came."""
    if policy.key not in graph._policies or policy.key.kind != "KubernetesNetworkPolicy":
        true(policy)


def removals_take_all(true: Any, graph: Any, key: Any) -> None:
    """With a policy go all others of its namespace."""
    for other in [other for other in graph._policies if other.namespace == key.namespace]:
        true(other)


def acl_lists_look_unchanged() -> None:
    """HNS shows nothing of an endpoint's ACL list but what Calico always puts there, whatever was given anew."""
    from hybridlab.calico.acl_lists import AclLists
    from hybridlab.policy.acls import shown

    def patched(self: Any) -> Any:
        return {endpoint: shown(acls)[:1] for endpoint, acls in self._given.items()}

    AclLists.shown = patched  # type: ignore[method-assign]


def rules_once_on_a_node() -> None:
    """HNS shows each policy's rule at one endpoint of a node, and without the addresses of the endpoints themselves."""
    from hybridlab.calico.acl_lists import AclLists
    from hybridlab.policy.acls import shown

    def patched(self: Any) -> Any:
        seen: set[Any] = set()
        found: dict[str, list[Any]] = {}
        for endpoint, acls in self._given.items():
            for entry in shown(acls):
                of_a_policy = str(entry.get("Id", "")).startswith("policy-")
                if not of_a_policy or entry["Id"] not in seen:
                    found.setdefault(endpoint, []).append({**entry, "LocalAddresses": ""} if of_a_policy else entry)
                seen.add(entry.get("Id"))
        return {endpoint: tuple(entries) for endpoint, entries in found.items()}

    AclLists.shown = patched  # type: ignore[method-assign]


def negations_are_ignored() -> None:
    """A negation in a selector holds for everybody, on both operating systems."""
    from hybridlab.policy.selectors import In, Not

    true = In.matches

    def among(self: Any, labels: Any) -> bool:
        return self.negated or true(self, labels)

    def anybody(self: Any, labels: Any) -> bool:
        return True

    In.matches = among  # type: ignore[method-assign]
    Not.matches = anybody  # type: ignore[method-assign]


def missing_labels_equal_all() -> None:
    """A label that is to have another value has to be there, on both operating systems."""
    from hybridlab.policy.selectors import In

    true = In.matches

    def patched(self: Any, labels: Any) -> bool:
        return true(self, labels) and (not self.negated or self.label in labels)

    In.matches = patched  # type: ignore[method-assign]


def policies_keep_to_first_labels() -> None:
    """On linux-2 and windows-2019 a pod is under the policies that select the labels which it came with."""
    from hybridlab.policy.resolve import Graph

    true, first = Graph._apply_policy, dict[str, Any]()

    def patched(self: Any, uid: str, endpoint: Any, policy: Any, **how: bool) -> None:
        labels = first.setdefault(uid, endpoint.labels)
        stays = endpoint.node in {"linux-2", "windows-2019"}
        true(self, uid, replace(endpoint, labels=labels) if stays else endpoint, policy, **how)

    Graph._apply_policy = patched  # type: ignore[method-assign]


def one_peer_has_another_vni() -> None:
    """linux-2 and windows-2019 send to windows-2022 alone with another VNI than their own."""
    from hybridlab.calico.felix_faults import FelixFaults

    true = FelixFaults.laid

    def patched(self: Any, routes: Any) -> Any:
        if self.node not in {"linux-2", "windows-2019"}:
            return true(self, routes)
        wrong = tuple(
            replace(block, identifier=4999) if block.node_address == "10.0.0.14" else block
            for block in routes.remote_blocks
        )
        return true(self, replace(routes, remote_blocks=wrong))

    FelixFaults.laid = patched  # type: ignore[method-assign]


def next_hop(node: str, owner: str, third: str) -> None:
    """BGP brings one node the way to another's blocks by a third node, which forwards."""
    from hybridlab.networks.l2bridge.plane import L2Bridge
    from hybridlab.networks.l2bridge.remote_access import RemoteAccess

    true, shown = L2Bridge.program, RemoteAccess._routes

    def program(self: Any, name: str, facts: Any, felix: Any, windows: Any) -> Any:
        made = true(self, name, facts, felix, windows)
        if name != node:
            return made
        wrong = dict.fromkeys(facts.own_blocks(owner), facts.ends[third].address)
        direct = tuple(replace(route, via=wrong.get(route.cidr, route.via)) for route in made.routes.direct)
        return replace(made, routes=replace(made.routes, direct=direct))

    def routes(self: Any) -> Any:
        wrong = dict.fromkeys(self.facts.own_blocks(owner), self.facts.ends[third].address)
        rows = shown(self)
        if self.machine.name != node:
            return rows
        return [{**row, "NextHop": wrong.get(str(row["DestinationNetwork"]), row["NextHop"])} for row in rows]

    L2Bridge.program = program  # type: ignore[method-assign,assignment]
    RemoteAccess._routes = routes  # type: ignore[method-assign]


def route_left(node: str, network: str, hop: str) -> None:
    """A node keeps a route to a block of a node that is gone."""
    from hybridlab.dataplane.model import DirectRoute
    from hybridlab.networks.l2bridge.plane import L2Bridge

    true = L2Bridge.program

    def program(self: Any, name: str, facts: Any, felix: Any, windows: Any) -> Any:
        made = true(self, name, facts, felix, windows)
        left = (DirectRoute(cidr=network, via=hop, protocol=12),) if name == node else ()
        return replace(made, routes=replace(made.routes, direct=(*made.routes.direct, *left)))

    L2Bridge.program = program  # type: ignore[method-assign,assignment]


def announced_too(node: str, owner: str) -> None:
    """A Windows node announces another one's blocks as well; without an owner, one of a node that is gone."""
    from hybridlab.networks.l2bridge.bgp import Bgp

    true = Bgp.announced

    def announced(self: Any, name: str, facts: Any) -> Any:
        more = [*facts.own_blocks(owner)] if owner else ["192.168.201.0/26"]
        return true(self, name, facts) + (more if name == node else [])

    Bgp.announced = announced  # type: ignore[method-assign,assignment]


def policies_stay_on_one_node() -> None:
    """On linux-2 what a policy closed stays closed once no policy applies any more."""
    from hybridlab.calico.felix_faults import FelixFaults

    true, last = FelixFaults.read, list[Any]()

    def patched(self: Any, tiers: Any) -> Any:
        read = true(self, tiers)
        if self.node != "linux-2":
            return read
        last[:] = [read] if read else last
        return read or (last[0] if last else read)

    FelixFaults.read = patched  # type: ignore[method-assign]


def new_pods_are_no_members() -> None:
    """On linux-3 and windows-2022 a selector's members are pods that were there when the first policy named it."""
    from hybridlab.calico.felix_faults import FelixFaults

    true, there = FelixFaults.members, dict[int, Any]()

    def patched(self: Any, sets: Any, name: str) -> Any:
        members = true(self, sets, name)
        if self.node not in {"linux-3", "windows-2022"}:
            return members
        _, old = there.setdefault(id(sets._sets[name]), (sets._sets[name], frozenset(sets._endpoints)))
        addresses = {sets._endpoints[uid].address for uid in old & sets._endpoints.keys()}
        return tuple(member for member in members if member in addresses)

    FelixFaults.members = patched  # type: ignore[method-assign]


def new_pods_are_members_whatever_their_labels() -> None:
    """A pod that comes after a policy is a member of the selectors that its rules have for pods of that namespace."""
    from hybridlab.policy.resolve import Graph

    true, later = Graph._refresh, dict[str, list[str]]()

    def patched(self: Any, pod: Any) -> None:
        if pod.uid not in self._endpoints and pod.namespace.startswith("calico-demo"):
            later[pod.uid] = list(self._sets_in.get(pod.namespace, ()))
        true(self, pod)
        for name in later.get(pod.uid, ()):
            if pod.address and name in self._sets and self._sets[name].contribute(pod.uid, (pod.address,)):
                self._set_due(name)

    Graph._refresh = patched  # type: ignore[method-assign]


def ready_backends_alone() -> None:
    """A rule that names a Service is about its backends that are ready, and no others."""
    from hybridlab.calico import typha
    from hybridlab.policy.objects import slice_members as true

    def patched(obj: Any) -> Any:
        ready = [one for one in obj.get("endpoints") or () if (one.get("conditions") or {}).get("ready") is not False]
        return true({**obj, "endpoints": ready})

    typha.slice_members = patched  # type: ignore[attr-defined]


def clocks_behind() -> None:
    """All clocks of the cluster are two minutes behind the suite's."""
    import datetime
    import time
    from importlib import import_module

    real, broken_down = time.time, time.gmtime

    class Behind(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Behind:
            return super().now(tz) - datetime.timedelta(minutes=2)

    time.time = lambda: real() - 120
    time.gmtime = lambda seconds=None: broken_down(time.time() if seconds is None else seconds)
    for name in ("controllers.times", "api.lifecycle", "api.http.ages", "api.http.logs", "cluster.installs.operator"):
        import_module(f"hybridlab.{name}").datetime = Behind  # type: ignore[attr-defined]


def block_sizes_can_be_changed() -> None:
    """The API takes another blockSize of a pool that is there."""
    from hybridlab.api.kinds.calico import PoolStrategy

    true = PoolStrategy.validate

    def patched(self: Any, obj: Any, old: Any) -> Any:
        return [cause for cause in true(self, obj, old) if "BlockSize cannot be modified" not in str(cause)]

    PoolStrategy.validate = patched  # type: ignore[method-assign]


PATCHES: dict[str, Callable[[], None]] = {
    "written either-selector": partial(written, either_selector),
    "written accounts-of-everybody": partial(written, accounts_of_everybody),
    "written accounts-of-nobody": partial(written, accounts_of_nobody),
    "written all-namespaces-the-own": partial(written, all_namespaces_the_own),
    "written all-pods-nobody": partial(written, all_pods_nobody),
    "written untracked-at-pods": partial(written, untracked_at_pods),
    "written on-forward-at-no-pods": partial(written, on_forward_at_no_pods),
    "written of-namesakes": partial(written, lambda spec, _: spec, of_namesakes),
    **{f"written {name}": partial(written, way) for name, way in WORDS.items()},
    "updates namespace-labels-stay": partial(updates, "set_namespace", namespace_labels_stay),
    "updates namesakes-collide": partial(updates, "set_policy", namesakes_collide),
    "updates edits-ignored": partial(updates, "set_policy", edits_ignored),
    "updates removals-take-all": partial(updates, "remove_policy", removals_take_all),
    "acl-lists look-unchanged": acl_lists_look_unchanged,
    "acl-lists rules-once": rules_once_on_a_node,
    "negations-are-ignored": negations_are_ignored,
    "missing-labels-equal-all": missing_labels_equal_all,
    "updates first-labels-stay": policies_keep_to_first_labels,
    "policies-stay-on-one-node": policies_stay_on_one_node,
    "new-pods-are-no-members": new_pods_are_no_members,
    "new-pods-are-members-whatever-their-labels": new_pods_are_members_whatever_their_labels,
    "routes another-vni": one_peer_has_another_vni,
    "routes by-a-third-node": partial(next_hop, "linux-1", "windows-2022", "linux-2"),
    "routes learned-by-a-third-node": partial(next_hop, "windows-2019", "linux-1", "linux-2"),
    "routes to-nobody": partial(route_left, "linux-2", "192.168.201.0/26", "10.0.0.99"),
    "routes announced-of-another": partial(announced_too, "windows-2019", "windows-2022"),
    "routes announced-of-nobody": partial(announced_too, "windows-2019", ""),
    "ready-backends-alone": ready_backends_alone,
    "clocks-behind": clocks_behind,
    "block-sizes-can-be-changed": block_sizes_can_be_changed,
}
"""Name, and way where a patch has several, to what applies it to this process."""


if __name__ == "__main__":
    PATCHES[sys.argv[1]]()
    from hybridlab.cli.main import main

    sys.exit(main(sys.argv[2:]))
