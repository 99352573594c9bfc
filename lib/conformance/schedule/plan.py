# SPDX-License-Identifier: Apache-2.0
"""The parts of a test, and whether the test can run on this cluster, decided from catalog and
facts."""

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from conformance.catalog import Catalog, Claim, Isolation, IsolationKind, Needs, catalog
from conformance.errors import UsageProblem
from conformance.facts.calico_api import v3_remedy
from conformance.facts.felix_settings import ruled
from conformance.facts.rights import RBAC_ROLES
from conformance.model.endpoint import OS
from conformance.model.facts import Facts
from conformance.pods.placement import Placement
from conformance.schedule.scheduler_lock import SHARED, Exclusivity
from conformance.settings import Settings
from conformance.verdicts.prospect import ClaimPart, Prospect, applying

CALICO_V3 = "projectcalico.org/v3"
BEYOND_NAMESPACES = {
    "disruption": "it changes more than what is in the prepared namespaces",
    "cluster policies": "it makes a policy or a tier of the whole cluster, which is in no namespace",
    "namespaces": "it labels or deletes a namespace, and prepared namespaces belong to the "
    "cluster's owner",
    "nodes": "it needs a pod in a node's network or a HostProcess pod, which prepared namespaces do not allow",
}
"""The resources that a run with ``--namespaces-prefix`` cannot use, each with the reason."""
CHANGING = frozenset({IsolationKind.DISRUPTIVE, IsolationKind.NODE_EXCLUSIVE})
"""The kinds of isolation of tests that make changes outside the run's own namespaces."""


@dataclass(frozen=True, kw_only=True)
class PlannedTest:
    """A selected test."""

    test: str
    """The node id."""
    parts: tuple[ClaimPart, ...]
    needs: Needs
    """The needs of the test and of its claims."""
    uses: tuple[str, ...] = ()
    """Needs of the test that require rights (``conformance.facts.rights.NEEDS``), read from its
    fixtures and claims."""
    otherwise: bool = False
    """True if the test applies the same policy in Kubernetes' API when Calico policies cannot be
    written."""
    last: bool = False
    """True if the test's verdict comes from the standing watch. The test then runs after all other
    tests."""
    one_node: bool = False
    """True if one node of any build is enough for a test that has a node to itself."""
    exclusivity: Exclusivity = SHARED
    """Exclusive resources of the test."""

    @property
    def about_windows(self) -> bool:
        """Return whether the test is about Windows: it needs a Windows node, and its parts are not
        only about Linux."""
        return self.needs.windows > 0 and any(
            part.about_windows for part in self.parts or (ClaimPart(claim=""),)
        )

    def claims(self, catalog: Catalog) -> tuple[Claim, ...]:
        """Return the claims that the test decides, each once."""
        return tuple(catalog[ident] for ident in dict.fromkeys(part.claim for part in self.parts))


def isolation_of(parts: Sequence[ClaimPart], catalog: Catalog) -> tuple[Isolation, ...]:
    """Return the isolation that each part of a test needs."""
    found = []
    for part in parts:
        claim = catalog[part.claim]
        isolation = claim.active or claim.isolation if part.active else claim.isolation
        exclusive = part.alone_on is not None and isolation.kind is IsolationKind.NODE_EXCLUSIVE
        found.append(replace(isolation, os=part.alone_on) if exclusive else isolation)
    return tuple(found)


def prospect_of(
    test: PlannedTest, catalog: Catalog, facts: Facts, settings: Settings, *, looks: bool = True
) -> Prospect:
    """Return whether a test can run. Applicability is checked first, then permission, then the
    cluster's equipment. ``looks``: facts about Windows nodes that are not known yet can still be
    read on the nodes."""
    looks = looks and may_look(settings)
    known = applying(test.parts, catalog, facts, looks=looks)
    hindered = None if known.verdict else _hindered(test, catalog, facts, settings)
    return known.hindered(*hindered) if hindered else known


def may_look(settings: Settings) -> bool:
    """Return whether a run may read, on the nodes themselves, facts that the API does not show."""
    return not (settings.dry_run or settings.namespaces_prefix)


def _hindered(
    test: PlannedTest, catalog: Catalog, facts: Facts, settings: Settings
) -> tuple[str, str] | None:
    """Return why a test cannot run although it applies to this cluster, and what the user can
    do."""
    beyond = [why for use, why in BEYOND_NAMESPACES.items() if use in test.uses]
    if settings.namespaces_prefix and beyond:
        role = "disruptive" if "disruption" in test.uses else "standard"
        return beyond[
            0
        ], f"run it without --namespaces-prefix, under the role of manifests/rbac/{role}.yaml"
    if lacking := _forbidden(test, settings):
        return lacking
    changing = [
        isolation for isolation in isolation_of(test.parts, catalog) if isolation.kind in CHANGING
    ]
    if refusal := (
        _not_allowed(changing, settings)
        or _too_wide(changing, facts, settings)
        or _too_late(changing, settings)
        or _near_home(test, changing, facts, settings)
    ):
        return refusal
    return _lack(test.needs, facts, settings, otherwise=test.otherwise)


def _not_allowed(changing: Sequence[Isolation], settings: Settings) -> tuple[str, str] | None:
    """Return why a test may not make its changes, and how to allow them."""
    whole = _whole(changing)
    if changing and settings.not_disruptive and not settings.disruptive:
        return settings.not_disruptive, "give the run that right"
    if whole and not settings.cluster_disruptive:
        if settings.not_cluster_disruptive:
            return settings.not_cluster_disruptive, "only the cluster's owner should allow that"
        return (
            "it changes something that the whole cluster shares",
            "allow that with --allow-cluster-disruptive",
        )
    if changing and not settings.disruptive:
        return (
            "it changes something outside the run's own namespaces",
            "allow that with --allow-disruptive",
        )
    return None


def _too_wide(
    changing: Sequence[Isolation], facts: Facts, settings: Settings
) -> tuple[str, str] | None:
    """Return why a cluster-wide change is refused, and what the user can do.

    Nobody would observe the effects on a node that is not covered. With many nodes, the change
    takes longer than the suite waits.
    """
    if not _whole(changing):
        return None
    coverage = Placement(facts, settings.tolerations, cover=settings.cover).coverage("windows")
    covered = {item.node.name for item in coverage}
    windows = [node.name for node in facts.by_os("windows")]
    if others := [name for name in windows if name not in covered]:
        return (
            "it changes the whole cluster, and not every Windows node is covered: "
            f"{', '.join(others)}",
            "cover every node: --every-node, or --max-nodes-per-os",
        )
    if len(windows) > settings.max_disrupted_nodes:
        return (
            f"it disrupts every Windows node, and there are {len(windows)}, more than --max-disrupted-nodes "
            f"{settings.max_disrupted_nodes}",
            f"allow it with --max-disrupted-nodes {len(windows)}, or run it on a smaller cluster",
        )
    return None


def _too_late(changing: Sequence[Isolation], settings: Settings) -> tuple[str, str] | None:
    """Return why a test may make no further changes, and what the user can do: the user's
    credentials would end before the change could be undone."""
    timings = settings.timings
    ends = settings.token_ends
    node = timings.windows.felix_restart + timings.windows.pod_ready
    needed = timings.run.put_back if _whole(changing) else node
    left = (ends or 0.0) - time.time()
    if not changing or ends is None or left >= needed:
        return None
    at = f"{datetime.fromtimestamp(ends, UTC):%Y-%m-%d %H:%M:%SZ}, in {max(0.0, left):.0f} s"
    return (
        f"the user's credentials end at {at}, and restoring what it changes may take "
        f"{needed:.0f} s",
        "name a kubeconfig with credentials that last, or are renewed (tokenFile, a credential plugin)",
    )


def _near_home(
    test: PlannedTest, changing: Sequence[Isolation], facts: Facts, settings: Settings
) -> tuple[str, str] | None:
    """Return why a test would take away the node or the network of the run's own pod, and what the
    user can do.

    A run outside the cluster has no such pod.
    """
    own = settings.own_pod
    if not own or not changing:
        return None
    if test.needs.vni_delivery and own.overlay:
        return (
            "it changes the overlay's VNI, and this run's own connection to the API server may use "
            f"it: {own.overlay}",
            "run it from outside the cluster, by --kubeconfig=PATH",
        )
    if _whole(changing):
        return None
    if not own.node:
        return (
            "it changes a whole node, and it is not known on which node this run's own pod is",
            "start it by the Job that `calico-conformance job` prints, which names its node",
        )
    coverage = Placement(facts, settings.tolerations, cover=settings.cover).coverage(
        _system(changing)
    )
    if [item.node.name for item in coverage] == [own.node]:
        return (
            "it changes a whole node, and this run's own pod is on the only node that it could "
            f"change, {own.node}",
            "let the Job run elsewhere (calico-conformance job --node=NAME), or run it from "
            "outside the cluster",
        )
    return None


def _system(wanted: Iterable[Isolation]) -> OS:
    """Return the operating system of the node that a test has to itself."""
    return next((isolation.os for isolation in wanted if isolation.os), "windows")


def _whole(changing: Sequence[Isolation]) -> bool:
    return any(isolation.kind is IsolationKind.DISRUPTIVE for isolation in changing)


def _forbidden(test: PlannedTest, settings: Settings) -> tuple[str, str] | None:
    """Return the right that the user lacks for a test, and how to get it.

    The right to disrupt counts only if the user requested disruption.
    """
    asked = settings.disruptive or settings.not_disruptive
    for use in (*test.uses, *(("calicoctl",) if test.needs.calico_policy else ())):
        if use in settings.lacking and (asked or use != "disruption"):
            lines = settings.lacking[use]
            more = f" and {len(lines) - 1} more" if len(lines) > 1 else ""
            return (
                f"the run's user may not {lines[0]}{more}",
                f"bind the role of manifests/rbac/{RBAC_ROLES[use]}.yaml",
            )
    return None


def writes_calico_policies(facts: Facts, settings: Settings) -> bool:
    """Return whether Calico policies can be written here: by the API, or with calicoctl."""
    return CALICO_V3 in (facts.calico_apis.value or ()) or settings.calicoctl is not None


def by_kubernetes(
    tests: Iterable[PlannedTest], ran: Iterable[str], facts: Facts, settings: Settings
) -> str:
    """Return a note with the claims that were decided by Kubernetes policies, since Calico policies
    cannot be written here; empty if there are none."""
    if writes_calico_policies(facts, settings):
        return ""
    there = set(ran)
    claims = {
        part.claim for test in tests if test.otherwise and test.test in there for part in test.parts
    }
    if not claims:
        return ""
    return (
        f"{CALICO_V3} is not served: {', '.join(sorted(claims))} decided with the equivalent "
        "NetworkPolicy of Kubernetes instead of Calico's policy"
    )


def _lack(
    needs: Needs, facts: Facts, settings: Settings, *, otherwise: bool
) -> tuple[str, str] | None:
    """Return what the cluster or run lacks for a test, and how to get it. Access to hosts is not
    checked here, but when the pods are created."""
    apis = facts.calico_apis
    variables = ruled(facts.felix_overrides, "vxlanVNI")
    lacks = (
        (
            needs.v3_api and CALICO_V3 not in (apis.value or ()),
            f"it needs the API {CALICO_V3}, which is not served ({apis.source})",
            v3_remedy(facts.apis_away),
        ),
        (
            needs.calico_policy and not otherwise and not writes_calico_policies(facts, settings),
            f"it writes Calico policies, and {CALICO_V3} is not served ({apis.source})",
            f"{v3_remedy(facts.apis_away)}, or name a calicoctl by --calicoctl=PATH",
        ),
        (
            needs.vni_delivery and facts.install.value in ("manual", "platform", "agent"),
            "nothing in the cluster delivers a VNI to Windows nodes: installation by "
            f"{facts.install.value} ({facts.install.source}), where each host has its own "
            "configuration of Calico",
            "install Calico for Windows by its operator; an installation by hand must be "
            "repeated with "
            "another VNI",
        ),
        (
            needs.vni_delivery and bool(variables),
            f"{variables} overrides the VNI of FelixConfiguration default",
            "remove it, and set vxlanVNI of FelixConfiguration default",
        ),
        (
            needs.node_fill and not settings.node_fill,
            "it fills a Windows node with pods, or a lab with Services",
            "allow that with --allow-node-fill; it takes minutes",
        ),
        (
            needs.lab and facts.evidence != "lab",
            "it makes so many objects that every node is busy with them; it runs only on labs",
            "run a lab: make full-nodes",
        ),
        (
            needs.load_balancer and not settings.load_balancer,
            "it requests load balancers, which a cloud charges for",
            "allow that with --allow-load-balancer",
        ),
        (
            needs.external_target and settings.external_target is None,
            "it needs a host outside the cluster that answers ping",
            "name it by --external-target ADDRESS[:PORT]",
        ),
        (
            needs.calicoctl and not settings.calicoctl,
            "it needs calicoctl",
            "name it by --calicoctl=PATH",
        ),
    )
    missing = ((what, remedy) for is_missing, what, remedy in lacks if is_missing)
    return _too_few_nodes(needs, facts, settings) or next(missing, None)


def _too_few_nodes(needs: Needs, facts: Facts, settings: Settings) -> tuple[str, str] | None:
    wanted: tuple[tuple[OS, str, int], ...] = (
        ("linux", "Linux", needs.linux),
        ("windows", "Windows", needs.windows),
    )
    for os, name, count in wanted:
        usable = [node.name for node in Placement(facts, settings.tolerations).usable(os)]
        if len(usable) < count:
            without = [
                f"; node {node.name} has no Calico: {node.without_calico}"
                for node in facts.by_os(os)
                if node.without_calico
            ]
            return (
                f"it needs {count} ready and schedulable {name} node{'s' if count > 1 else ''}, "
                "but this cluster has "
                f"{f'only {len(usable)} (' + ', '.join(usable) + ')' if usable else 'none'}"
                f"{''.join(without)}",
                f"run it on a cluster with {count}",
            )
    return None


def assign_exclusivity(
    tests: Iterable[PlannedTest], claims: Catalog, facts: Facts, settings: Settings
) -> list[Exclusivity]:
    """Return the turn of each test, the same in every process.

    A node-exclusive test takes one Windows node of each build, distributed over the nodes of the
    build, or covered Linux nodes, at most ``--max-disrupted-nodes``. If ``--disruptive-node`` is
    named, every such test takes that node. Tests for which a single node is enough are distributed
    separately, so that they run at the same time. A test that will not run does not affect the
    distribution.
    """
    dealt: Counter[tuple[OS, bool]] = Counter()
    found = []
    for test in tests:
        wanted = isolation_of(test.parts, claims)
        changing = CHANGING & {isolation.kind for isolation in wanted}
        if not (changing or test.last) or prospect_of(test, claims, facts, settings).verdict:
            found.append(SHARED)
            continue
        if not changing:
            found.append(Exclusivity(kind="last"))
            continue
        os = _system(wanted)
        nodes = [settings.disruptive_node]
        if not settings.disruptive_node:
            nodes = _nodes(facts, settings, os, dealt[os, test.one_node])
        dealt[os, test.one_node] += 1
        if IsolationKind.DISRUPTIVE in changing or not nodes:
            found.append(Exclusivity(kind="cluster", node=next(iter(nodes), "")))
        else:
            also = () if test.one_node else tuple(nodes[1:])
            found.append(Exclusivity(kind="node", node=nodes[0], also=also))
    return found


def _nodes(facts: Facts, settings: Settings, os: OS, number: int) -> list[str]:
    """Return the nodes for the test with this number: one covered node of each Windows build, or
    covered Linux nodes.

    For each number, the choice begins with another node. The node that the run itself is on is left
    out.
    """
    own = settings.own_pod.node if settings.own_pod else ""
    builds: dict[str, list[str]] = {}
    coverage = Placement(facts, settings.tolerations, cover=settings.cover).coverage(os)
    others = [covered.node for covered in coverage if covered.node.name != own]
    for node in sorted(others, key=lambda node: node.name):
        builds.setdefault(node.build if os == "windows" else node.name, []).append(node.name)
    found = [names[number % len(names)] for names in builds.values()]
    first = number % len(found) if found else 0
    dealt = [*found[first:], *found[:first]]
    return dealt if os == "windows" else dealt[: settings.max_disrupted_nodes]


def check_disruptable(name: str, facts: Facts) -> None:
    """Raise UsageProblem if no claim needs a node of the named node's operating system to itself.
    An empty name is allowed."""
    systems = {
        isolation.os
        for claim in catalog().values()
        for isolation in (claim.isolation, claim.active)
        if isolation
    }
    fit = [node.name for node in facts.nodes if node.os in systems]
    if name and name not in fit:
        raise UsageProblem(
            f"--disruptive-node {name}: no test changes a node of its operating system; name {' or '.join(fit)}"
        )
