"""Starts a lab whose own code is patched in one place: ``python patched_lab.py PATCH up ...``.

The patches are what no fault of the lab can be: they are about the one graph of policies that all Felixes share, or
about what was there before.  They live here and not in the lab, so that nothing that a user can start knows them;
test_patched_lab.py applies each and sees it take effect.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "lib")]

from tests.detection import over_time  # noqa: E402
from tests.detection.misread_words import (  # noqa: E402  # found by that path where a lab is started
    RUN,
    WORDS,
    Written,
    accounts_of_everybody,
    accounts_of_nobody,
    all_namespaces_the_own,
    all_pods_nobody,
    either_selector,
    on_forward_at_no_pods,
    untracked_at_pods,
)


def written(
    way: Callable[[Written, str], Written],
    also: Callable[[Any, Written], Any] = lambda policy, _: policy,
) -> None:
    """Felix takes a policy for one that is written otherwise: ``way`` of its spec, ``also`` of what becomes of it."""
    from hybridlab.policy import admin_policy, kubernetes_policy, policy

    true = policy.from_spec

    def patched(key: Any, spec: Written, types: Any) -> Any:
        return also(true(key, way(spec, key.namespace), types), spec)

    for module in (policy, kubernetes_policy, admin_policy):
        module.from_spec = patched  # type: ignore[attr-defined]


def of_namesakes(policy: Any, spec: Written) -> Any:
    """A policy of the run's selects pods of other namespaces too that have the labels that it asks for."""
    from hybridlab.policy.selectors import parse

    reaches = policy.key.namespace.startswith(RUN) and spec.get("selector")
    return replace(policy, selector=parse(spec["selector"])) if reaches else policy


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
        if (key.name, key.kind) == (
            policy.key.name,
            policy.key.kind,
        ) and key.namespace != policy.key.namespace:
            graph.remove_policy(key)
    true(policy)


def long_names_lost(true: Any, graph: Any, policy: Any) -> None:
    """A policy whose name is longer than a label's value may be is not heard of."""
    if len(policy.key.name.rpartition(".")[2]) <= 63:
        true(policy)


def kinds_collide(true: Any, graph: Any, policy: Any) -> None:
    """A policy takes the place of one of its name and namespace that is of another kind, whichever comes first."""
    rivals = [
        key
        for key in graph._policies
        if (key.name, key.namespace) == (policy.key.name, policy.key.namespace)
    ]
    if all(key.kind <= policy.key.kind for key in rivals):
        for key in rivals:
            graph.remove_policy(key)
        true(policy)


def tiers_by_name(true: Any, graph: Any, name: str, tier: Any) -> None:
    """A run's tiers go by their names, whatever their orders."""
    true(
        name,
        replace(tier, order=float(sum(map(ord, name[-3:]))))
        if tier and name.startswith(RUN)
        else tier,
    )


def edits_of_tiers_ignored(true: Any, graph: Any, name: str, tier: Any) -> None:
    """Felix does not hear that a tier was edited."""
    if tier is None or name not in graph._tiers:
        true(name, tier)


def labels_of_sets_stay(true: Any, graph: Any, identity: str, network_set: Any) -> None:
    """Felix knows the labels alone that a NetworkSet had when it came."""
    old = graph._network_sets.get(identity)
    true(identity, replace(network_set, labels=old.labels) if network_set and old else network_set)


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


def acl_lists_reset_nobody() -> None:
    """HNS takes another ACL list for an endpoint that has one, and leaves the connections that there are alone."""
    from hybridlab.calico.felix_windows_policy import WindowsNodePolicy

    true = WindowsNodePolicy.difference

    def patched(self: Any) -> Any:
        had, found = set(self._active), true(self)
        first = tuple(one for one in found.update.reset if one not in had) if found else ()
        return found and replace(found, update=replace(found.update, reset=first))

    WindowsNodePolicy.difference = patched  # type: ignore[method-assign]


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
                    found.setdefault(endpoint, []).append(
                        {**entry, "LocalAddresses": ""} if of_a_policy else entry
                    )
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
        direct = tuple(
            replace(route, via=wrong.get(route.cidr, route.via)) for route in made.routes.direct
        )
        return replace(made, routes=replace(made.routes, direct=direct))

    def routes(self: Any) -> Any:
        wrong = dict.fromkeys(self.facts.own_blocks(owner), self.facts.ends[third].address)
        rows = shown(self)
        if self.machine.name != node:
            return rows
        return [
            {**row, "NextHop": wrong.get(str(row["DestinationNetwork"]), row["NextHop"])}
            for row in rows
        ]

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
        _, old = there.setdefault(
            id(sets._sets[name]), (sets._sets[name], frozenset(sets._endpoints))
        )
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
            if (
                pod.address
                and name in self._sets
                and self._sets[name].contribute(pod.uid, (pod.address,))
            ):
                self._set_due(name)

    Graph._refresh = patched  # type: ignore[method-assign]


def ready_backends_alone() -> None:
    """A rule that names a Service is about its backends that are ready, and no others."""
    from hybridlab.calico import typha
    from hybridlab.policy.objects import slice_members as true

    def patched(obj: Any) -> Any:
        ready = [
            one
            for one in obj.get("endpoints") or ()
            if (one.get("conditions") or {}).get("ready") is not False
        ]
        return true({**obj, "endpoints": ready})

    typha.slice_members = patched  # type: ignore[attr-defined]


def unready_pods_named() -> None:
    """The name of a headless Service leads to its pods that are not ready as well."""
    from hybridlab.controllers import dns

    true = dns._headless

    def patched(slices: Any) -> Any:
        return true(
            [
                {
                    **one,
                    "endpoints": [
                        {**endpoint, "conditions": {}} for endpoint in one.get("endpoints") or ()
                    ],
                }
                for one in slices
            ]
        )

    dns._headless = patched


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
    for name in (
        "controllers.times",
        "api.lifecycle",
        "api.http.ages",
        "api.http.logs",
        "cluster.installs.operator",
    ):
        import_module(f"hybridlab.{name}").datetime = Behind  # type: ignore[attr-defined]


def one_clock_differs(node: str, seconds: float) -> None:
    """The clock of a node's kubelet, by which it renews its lease, differs from all others."""
    import datetime

    from hybridlab.controllers.nodes import Nodes

    true = Nodes.__init__

    class Client:
        def __init__(self, client: Any) -> None:
            self.client = client

        def __getattr__(self, name: str) -> Any:
            return getattr(self.client, name)

        def create(self, resource: str, obj: Any, *where: str) -> Any:
            return self.client.create(resource, self._told(obj, obj["metadata"]["name"]), *where)

        def patch(self, resource: str, name: str, change: Any, *where: str) -> Any:
            return self.client.patch(resource, name, self._told(change, name), *where)

        def _told(self, obj: Any, name: str) -> Any:
            if name != node or "renewTime" not in (obj.get("spec") or {}):
                return obj
            there = datetime.datetime.fromisoformat(obj["spec"]["renewTime"]) + datetime.timedelta(
                seconds=seconds
            )
            return {
                **obj,
                "spec": {**obj["spec"], "renewTime": there.strftime("%Y-%m-%dT%H:%M:%S.%fZ")},
            }

    def patched(self: Any, client: Any, *what: Any, **how: Any) -> None:
        true(self, Client(client), *what, **how)  # type: ignore[arg-type]

    Nodes.__init__ = patched  # type: ignore[method-assign]


def block_sizes_can_be_changed() -> None:
    """The API takes another blockSize of a pool that is there."""
    from hybridlab.api.kinds.calico import PoolStrategy

    true = PoolStrategy.validate

    def patched(self: Any, obj: Any, old: Any) -> Any:
        return [
            cause
            for cause in true(self, obj, old)
            if "BlockSize cannot be modified" not in str(cause)
        ]

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
    "updates long-names-lost": partial(updates, "set_policy", long_names_lost),
    "updates kinds-collide": partial(updates, "set_policy", kinds_collide),
    "updates tiers-by-name": partial(updates, "set_tier", tiers_by_name),
    "updates edits-of-tiers-ignored": partial(updates, "set_tier", edits_of_tiers_ignored),
    "updates labels-of-sets-stay": partial(updates, "set_network_set", labels_of_sets_stay),
    "updates edits-ignored": partial(updates, "set_policy", edits_ignored),
    "updates removals-take-all": partial(updates, "remove_policy", removals_take_all),
    "acl-lists look-unchanged": acl_lists_look_unchanged,
    "acl-lists reset-nobody": acl_lists_reset_nobody,
    "acl-lists rules-once": rules_once_on_a_node,
    "negations-are-ignored": negations_are_ignored,
    "missing-labels-equal-all": missing_labels_equal_all,
    "updates first-labels-stay": policies_keep_to_first_labels,
    "over-time policies-stay": policies_stay_on_one_node,
    "new-pods-are-no-members": new_pods_are_no_members,
    "new-pods-are-members-whatever-their-labels": new_pods_are_members_whatever_their_labels,
    "over-time made-anew": over_time.policies_made_anew,
    "over-time taken-labels": over_time.taken_labels,
    "over-time returned-members": over_time.returned_members,
    "over-time selected-again": over_time.selected_again,
    "over-time other-apis-go": over_time.other_apis_go,
    "over-time last-of-several": over_time.last_of_several,
    "over-time other-apis-go-too": over_time.other_apis_go_too,
    "over-time reversed-rules": partial(over_time.edited, over_time.reversed_rules),
    "over-time ports-of-datagrams": partial(over_time.edited, over_time.ports_of_datagrams),
    "routes another-vni": one_peer_has_another_vni,
    "routes by-a-third-node": partial(next_hop, "linux-1", "windows-2022", "linux-2"),
    "routes learned-by-a-third-node": partial(next_hop, "windows-2019", "linux-1", "linux-2"),
    "routes to-nobody": partial(route_left, "linux-2", "192.168.201.0/26", "10.0.0.99"),
    "routes announced-of-another": partial(announced_too, "windows-2019", "windows-2022"),
    "routes announced-of-nobody": partial(announced_too, "windows-2019", ""),
    "slices ready-alone": ready_backends_alone,
    "slices unready-named": unready_pods_named,
    "clocks all-behind": clocks_behind,
    "clocks one-behind": partial(one_clock_differs, "windows-2022", -120.0),
    "clocks one-ahead": partial(one_clock_differs, "linux-1", 120.0),
    "block-sizes-can-be-changed": block_sizes_can_be_changed,
}
"""Name, and way where a patch has several, to what applies it to this process."""


if __name__ == "__main__":
    PATCHES[sys.argv[1]]()
    from hybridlab.cli.main import main

    sys.exit(main(sys.argv[2:]))
