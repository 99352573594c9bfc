# SPDX-License-Identifier: Apache-2.0
"""The policy of a Windows node's endpoints: decides which ACL lists are computed again, and which
of them HNS receives.

It follows felix/dataplane/windows/endpoint_mgr.go. An endpoint's list is always computed from
current policies and sets; it can become outdated only because it is not computed again. Felix
computes the lists of new endpoints, and of endpoints whose policies or labels changed. After an
edit of rules, or of a set's members, Felix searches for the endpoints that use the policy. In
releases with the known defects, it searches only in an endpoint's first tier, and does not search
at all after an edit of rules.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from hybridlab.calico.acl_lists import AclLists, Lists
from hybridlab.calico.felix_due import Due, DueMarks
from hybridlab.calico.felix_faults import FelixFaults, LevelLog
from hybridlab.calico.felix_policy import PolicyDifference
from hybridlab.dataplane.model import Acl, EndpointProgram, PolicyUpdate
from hybridlab.policy.acls import FROM_HOST_ID, AclListBuilder
from hybridlab.policy.policy import PolicyKey
from hybridlab.policy.policy_sets import SKIPPED
from hybridlab.policy.release import Release
from hybridlab.policy.resolve import Graph

Tiers = tuple[frozenset[PolicyKey], ...]
"""The policies of each tier that applies to an endpoint."""


@dataclass
class WindowsDue(Due):
    """The possible changes on a Windows node."""

    relabelled: set[str] = field(default_factory=set)
    edited: set[PolicyKey] = field(default_factory=set)
    """Policies in which only the rules changed."""


class WindowsNodePolicy(DueMarks):
    """The policy of a node; sent policy stays when Felix stops.

    Implements ``felix_policy.PolicySource``; ``on_due`` is called whenever policy may differ from
    the data plane.
    """

    def __init__(  # noqa: PLR0917
        self,
        node: str,
        host_addresses: Callable[[], Sequence[str]],
        graph: Graph,
        release: Release,
        lists: AclLists,
        faults: FelixFaults,
        on_due: Callable[[], None],
        log: LevelLog,
    ) -> None:
        self._node = node
        self._graph = graph
        self._defects = release.defects
        self._lists = lists
        self._faults = faults
        self._on_due = on_due
        self._log = log
        self._host_addresses = host_addresses
        self._builder = AclListBuilder(release, partial(faults.members, graph), ())
        self._active: dict[str, Tiers] = {}
        """The tiers of each endpoint, as they were when its list was last computed."""
        self._sets: frozenset[str] = frozenset()
        """The sets that the policies in ``_active`` name."""
        self._due: WindowsDue = WindowsDue()
        self._warned: set[str] = set()

    def __contains__(self, uid: str) -> bool:
        """Return whether the list of an endpoint has been computed for sending."""
        return uid in self._active

    def rules_due(self, uid: str, key: PolicyKey) -> None:
        """Mark that the rules of a policy that applies to this endpoint have changed."""
        self._due.edited.add(key)
        self._on_due()

    def relabelled(self, uid: str) -> None:
        """Mark that this endpoint has other labels, even if no policy depends on them."""
        self._due.relabelled.add(uid)
        self._on_due()

    def difference(self) -> PolicyDifference | None:
        """Return the changes to send and count them as sent; return None if there are no changes.
        Raise FelixPanic."""
        due = self._due
        self._due = WindowsDue()
        programmed = tuple(self._active)
        refreshed = due.endpoints | due.relabelled | self._users_of(self._changed_policies(due))
        if due.everything:
            refreshed |= {*self._graph.endpoints_on(self._node), *programmed}
        gone = tuple(
            uid
            for uid in refreshed
            if not self._graph.is_on(uid, self._node) and uid in self._active
        )
        for uid in gone:
            del self._active[uid]
            self._lists.removed(uid)
        held = self._faults.held((), programmed)
        computed = self._computed(
            uid for uid in refreshed if self._graph.is_on(uid, self._node) and uid not in held
        )
        given = self._lists.replaced(computed, self._anew(due, computed))
        self._sets = frozenset[str]().union(*(self._graph.sets_of(key) for key in self._keys()))
        if not (given or gone):
            return None
        # Endpoints that share a list also share a program.
        made = {id(acls): EndpointProgram(acls=acls) for acls in given.values()}
        update = PolicyUpdate(
            endpoints={uid: made[id(acls)] for uid, acls in given.items()},
            removed_endpoints=gone,
            reset=self._faults.resets(tuple(given), tuple(given), programmed),
            held=held,
        )
        return PolicyDifference(update, given)

    def _anew(self, due: WindowsDue, computed: Lists) -> Collection[str]:
        """Return the endpoints whose list is sent even if it has not changed."""
        if due.everything:
            return computed.keys()
        every_update_replaces = self._lists.every_update_replaces or self._faults.eager
        return due.relabelled if every_update_replaces else ()

    def _changed_policies(self, due: WindowsDue) -> frozenset[PolicyKey]:
        """Return the policies that make Felix search for endpoints when they change.

        A set that an edit brings to the node counts as a changed set.
        """
        sets = set(due.sets)
        for key in due.edited:
            sets |= self._graph.sets_of(key) - self._sets
        found = frozenset[PolicyKey]().union(*(self._graph.policies_with(name) for name in sets))
        return found if self._defects.edited_rules_go_stale else found | due.edited

    def _users_of(self, policies: frozenset[PolicyKey]) -> set[str]:
        """Return the endpoints that use any of these policies, as far as Felix finds them."""
        if not policies:
            return set()
        looked_at = 1 if self._defects.later_tiers_go_stale else None
        return {
            uid
            for uid, tiers in self._active.items()
            if any(not keys.isdisjoint(policies) for keys in tiers[:looked_at])
        }

    def _computed(self, uids: Iterable[str]) -> Lists:
        """Return the lists of endpoints; endpoints of a namespace to which the same policies apply
        share a list."""
        shared: dict[tuple[frozenset[PolicyKey], str], tuple[Tiers, tuple[Acl, ...]]] = {}
        computed = {}
        self._builder.hosts = tuple(f"{address}/32" for address in self._host_addresses())
        for uid in uids:
            keys = self._faults.applying(self._graph.keys_for(uid), uid)
            namespace = self._graph.pod(uid).namespace
            if (keys, namespace) not in shared:
                tiers = self._faults.policies(self._graph.tiers_for(keys))
                applying = tuple(
                    frozenset(policy.key for policy in tier.policies) for tier in tiers
                )
                acls = self._builder.build(tiers, namespace)
                if self._faults.hostless:
                    acls = tuple(acl for acl in acls if acl.id != FROM_HOST_ID)
                shared[keys, namespace] = applying, acls
                self._warn()
            self._active[uid], computed[uid] = shared[keys, namespace]
        return computed

    def _keys(self) -> frozenset[PolicyKey]:
        return frozenset[PolicyKey]().union(
            *{keys for tiers in self._active.values() for keys in tiers}
        )

    def _warn(self) -> None:
        """Log, once, the rules that the newest list leaves out."""
        for left_out in self._builder.left_out:
            if left_out.warned and left_out.where not in self._warned:
                self._warned.add(left_out.where)
                self._log("WARNING", f"{SKIPPED} rule={left_out.where}: {left_out.why}")
