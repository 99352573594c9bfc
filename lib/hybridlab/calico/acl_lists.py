# SPDX-License-Identifier: Apache-2.0
"""The ACL lists of a Windows node's endpoints: Felix' newest lists, and the lists that HNS has.

HNS takes whole lists only. From v3.31.0 on, Calico does not send an unchanged list again
(calico#10199, fixed by calico#10437). Older versions send the list with every update of the
endpoint, including a change of labels.
"""

from collections.abc import Collection, Mapping

from hybridlab.dataplane.model import Acl
from hybridlab.policy.acls import DEFAULT_DENY, Entry, shown
from hybridlab.policy.release import numbers

Lists = Mapping[str, tuple[Acl, ...]]
"""The ACL lists, by endpoint."""


class AclLists:
    """The ACL lists of a node."""

    def __init__(self, calico_version: str) -> None:
        self.every_update_replaces = numbers(calico_version) < (3, 31, 0)
        self._wanted: dict[str, tuple[Acl, ...]] = {}
        self._given: dict[str, tuple[Acl, ...]] = {}
        self._programmed: set[str] = set()
        """Endpoints with a list from Felix."""

    def created(self, endpoint: str) -> None:
        """Record that the CNI plugin made the endpoint."""
        self._given.setdefault(endpoint, DEFAULT_DENY)

    def removed(self, endpoint: str) -> None:
        self._wanted.pop(endpoint, None)
        self._given.pop(endpoint, None)
        self._programmed.discard(endpoint)

    def replaced(self, computed: Lists, anew: Collection[str]) -> dict[str, tuple[Acl, ...]]:
        """Return the lists to program: changed lists, and the lists of the endpoints in
        ``anew``."""
        replaced = {}
        for endpoint, acls in computed.items():
            if endpoint in anew or self._wanted.get(endpoint) != acls:
                self._wanted[endpoint] = replaced[endpoint] = acls
        return replaced

    def give(self, lists: Lists) -> tuple[str, ...]:
        """Record that HNS has these lists. Return the endpoints that already had a list from Felix
        before."""
        # leave out endpoints that were removed meanwhile
        lists = {endpoint: acls for endpoint, acls in lists.items() if endpoint in self._wanted}
        again = tuple(endpoint for endpoint in lists if endpoint in self._programmed)
        self._given.update(lists)
        self._programmed.update(lists)
        return again

    def given(self, endpoint: str) -> tuple[Acl, ...]:
        return self._given[endpoint]

    def shown(self) -> dict[str, tuple[Entry, ...]]:
        return {endpoint: shown(acls) for endpoint, acls in self._given.items()}
