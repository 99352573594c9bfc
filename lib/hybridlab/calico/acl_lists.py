"""The ACL lists of one Windows node's endpoints: what Felix computed last, and what HNS was given last.

HNS takes whole lists only.  From v3.31.0 on Calico leaves a list alone that an update does not change (calico#10199,
fixed by calico#10437); older versions give it anew with every update of the endpoint, a label's change included.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from hybridlab.calico.acls import DEFAULT_DENY, Acl, Entry, Members, acl_list, shown
from hybridlab.dataplane.model import EndpointProgram

Lists = Mapping[str, tuple[Acl, ...]]
"""Endpoint to its list."""


class AclLists:
    """Of one node."""

    def __init__(self, host: str, calico_version: str) -> None:
        self._host = host
        self.every_update_replaces = _numbers(calico_version) < (3, 31, 0)
        self._wanted: dict[str, tuple[Acl, ...]] = {}
        self._given: dict[str, tuple[Acl, ...]] = {}
        self._programmed: set[str] = set()
        """Endpoints whose list is one of Felix'."""

    def created(self, endpoint: str) -> None:
        """The CNI plugin made the endpoint."""
        self._given.setdefault(endpoint, DEFAULT_DENY)

    def removed(self, endpoint: str) -> None:
        """It is gone."""
        self._wanted.pop(endpoint, None)
        self._given.pop(endpoint, None)
        self._programmed.discard(endpoint)

    def replaced(
        self, programs: Mapping[str, EndpointProgram], members: Members, anew: Iterable[str]
    ) -> dict[str, tuple[Acl, ...]]:
        """Of endpoints with these programs, the lists that have to be given: changed ones, and those of ``anew``."""
        computed: dict[int, tuple[Acl, ...]] = {}  # programs are shared by the endpoints to which the same applies
        replaced = {}
        for endpoint, program in programs.items():
            if id(program) not in computed:
                computed[id(program)] = acl_list(program, members, self._host)
            acls = computed[id(program)]
            if endpoint in anew or self._wanted.get(endpoint) != acls:
                self._wanted[endpoint] = replaced[endpoint] = acls
        return replaced

    def give(self, lists: Lists) -> tuple[str, ...]:
        """HNS has them now; returns the endpoints that had one of Felix' before."""
        lists = {endpoint: acls for endpoint, acls in lists.items() if endpoint in self._wanted}  # others have left
        again = tuple(endpoint for endpoint in lists if endpoint in self._programmed)
        self._given.update(lists)
        self._programmed.update(lists)
        return again

    def shown(self) -> dict[str, tuple[Entry, ...]]:
        """All that HNS has."""
        return {endpoint: shown(acls) for endpoint, acls in self._given.items()}


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])
