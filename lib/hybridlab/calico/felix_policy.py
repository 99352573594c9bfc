# SPDX-License-Identifier: Apache-2.0
"""The policy of a Linux node's endpoints: the data plane's present state, and its difference from
the calculation graph.

The difference is computed without awaiting, so it describes one consistent state of the graph.
``felix_windows_policy`` does the same for a Windows node.
"""

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from typing import Protocol

from hybridlab.calico.acl_lists import Lists
from hybridlab.calico.felix_due import Due, DueMarks
from hybridlab.calico.felix_faults import FelixFaults
from hybridlab.dataplane.model import EndpointProgram, PolicyUpdate
from hybridlab.policy.policy import PolicyKey
from hybridlab.policy.render import program
from hybridlab.policy.resolve import Graph, Subscriber


@dataclass(frozen=True)
class ProgramAndSets:
    """An endpoint's program, and the names of the IP sets in it."""

    program: EndpointProgram
    sets: frozenset[str]


@dataclass(frozen=True)
class PolicyDifference:
    """The changes that must be programmed."""

    update: PolicyUpdate
    lists: Lists = field(default_factory=dict)
    """Windows: the ACL lists that HNS gets with the changes."""


class PolicySource(Subscriber, Protocol):
    """The source of a node's policy."""

    def __contains__(self, uid: str) -> bool:
        """Return whether the policy of an endpoint has been computed for sending."""

    def everything_due(self) -> None:
        """Mark that everything must be sent, changed or not."""

    def difference(self) -> PolicyDifference | None:
        """Return the changes to send and count them as sent; return None if there are none."""


class NodePolicy(DueMarks):
    """The policy of a node; sent policy stays when Felix stops.

    Implements ``PolicySource``; ``on_due`` is called whenever policy may differ from the data
    plane.
    """

    def __init__(
        self, node: str, graph: Graph, faults: FelixFaults, on_due: Callable[[], None]
    ) -> None:
        self._node = node
        self._graph = graph
        self._faults = faults
        self._on_due = on_due
        self._endpoints: dict[str, ProgramAndSets] = {}
        self._sets: dict[str, tuple[str, ...]] = {}
        self._due = Due()
        self._built: dict[frozenset[PolicyKey], ProgramAndSets] = {}
        self._built_version = -1

    def __contains__(self, uid: str) -> bool:
        """Return whether the program of an endpoint has been computed for sending."""
        return uid in self._endpoints

    def rules_due(self, uid: str, key: PolicyKey) -> None:
        """Mark that the rules of a policy that applies to this endpoint have changed."""
        self.endpoint_due(uid)

    def relabelled(self, uid: str) -> None:
        """Do nothing: an endpoint's labels are not part of its program."""

    def difference(self) -> PolicyDifference | None:
        """Return the changes to send and count them as sent; return None if there are none."""
        due = self._due
        self._due = Due()
        programmed = tuple(self._endpoints)
        if due.everything:
            self._built = {}  # the faults may have changed their effect on policies
            due.endpoints |= {*self._graph.endpoints_on(self._node), *programmed}
        endpoints, gone = self._changed_endpoints(due)
        sets, unused = self._changed_sets(due)
        if not (endpoints or gone or sets or unused):
            return None
        held = self._faults.held((), programmed)
        touched = self._programs_of(endpoints.keys(), sets.keys(), without=held)
        update = PolicyUpdate(
            sets=sets,
            removed_sets=unused,
            endpoints=endpoints,
            removed_endpoints=gone,
            reset=self._faults.resets((), tuple(touched), programmed),
            held=held,
        )
        return PolicyDifference(update)

    def _changed_endpoints(self, due: Due) -> tuple[dict[str, EndpointProgram], tuple[str, ...]]:
        """Return the programs that must be sent, and the endpoints that are gone."""
        changed: dict[str, EndpointProgram] = {}
        gone: list[str] = []
        for uid in due.endpoints:
            if self._graph.is_on(uid, self._node):
                now = self._program(self._faults.applying(self._graph.keys_for(uid), uid))
                before = self._endpoints.get(uid)
                if due.everything or before is None or before.program != now.program:
                    changed[uid] = now.program
                    self._endpoints[uid] = now
            elif self._endpoints.pop(uid, None) is not None:
                gone.append(uid)
        return changed, tuple(gone)

    def _changed_sets(self, due: Due) -> tuple[dict[str, tuple[str, ...]], tuple[str, ...]]:
        """Return the members to send, and the sets that no endpoint needs any more."""
        needed = frozenset[str]().union(*{built.sets for built in self._endpoints.values()})
        changed: dict[str, tuple[str, ...]] = {}
        for name in needed:
            if due.everything or name not in self._sets or name in due.sets:
                members = self._faults.members(self._graph, name)
                if due.everything or self._sets.get(name) != members:
                    changed[name] = self._sets[name] = members
        unused = tuple(name for name in self._sets if name not in needed)
        for name in unused:
            del self._sets[name]
        return changed, unused

    def _programs_of(
        self, endpoints: Set[str], sets: Set[str], *, without: tuple[str, ...]
    ) -> Mapping[str, EndpointProgram]:
        """Return the programs that an update of these endpoints and sets affects."""
        return {
            uid: built.program
            for uid, built in self._endpoints.items()
            if (uid in endpoints or not built.sets.isdisjoint(sets)) and uid not in without
        }

    def _program(self, keys: frozenset[PolicyKey]) -> ProgramAndSets:
        """Return the program for the endpoints to which exactly these policies apply. All these
        endpoints share it."""
        if self._built_version != self._graph.version:
            self._built = {}
            self._built_version = self._graph.version
        built = self._built.get(keys)
        if built is None:
            made = program(self._faults.policies(self._graph.tiers_for(keys)))
            built = self._built[keys] = ProgramAndSets(made, made.named_sets())
        return built
