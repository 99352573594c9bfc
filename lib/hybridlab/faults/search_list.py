"""Search lists of new pods that are not what their kubelets should give them."""

from collections.abc import Mapping
from typing import get_args

from hybridlab.calico.cni import SearchList
from hybridlab.faults.errors import BadFault
from hybridlab.faults.lab_parts import LabParts
from hybridlab.faults.model import NODE_OR_ALL, Fault, Parameter, Types

TYPES = Types()

SEARCH_LISTS: tuple[SearchList, ...] = get_args(SearchList)
WORDS: Mapping[SearchList, str] = {
    "own-only": "search the domain of their own namespace alone",
    "of-default": "search the domain of the namespace default in place of their own",
    "of-first": "search the domain of the first one's namespace in place of their own",
    "none": "search no domain",
}


@TYPES.fault(
    "search-list-wrong",
    "dns",
    NODE_OR_ALL,
    Parameter("list", f"{', '.join(SEARCH_LISTS[:-1])} or {SEARCH_LISTS[-1]}", choices=SEARCH_LISTS),
)
class SearchListWrong(Fault):
    """New pods search other domains for short names than those of their namespace and the cluster."""

    def __init__(self, lab: LabParts, identity: str, parameters: Mapping[str, str]) -> None:
        self._wrong, self._identity = lab.calico.pod_network.wrong_searches, identity
        self._list = next(name for name in SEARCH_LISTS if name == parameters["list"])
        self._nodes = frozenset(lab.nodes(parameters["node"]))
        alone = [node for node in sorted(self._nodes) if lab.calico.nodes[node].os == "windows"]
        if self._list == "own-only" and alone:
            raise BadFault(f"pods of Windows node {alone[0]} search the domain of their own namespace alone anyway")

    async def inject(self) -> None:
        self._wrong[self._identity] = self._list, self._nodes

    async def heal(self) -> None:
        """Give new pods what they should have."""
        self._wrong.pop(self._identity, None)

    async def evidence(self) -> list[str]:
        """The nodes whose new pods search wrongly."""
        if self._identity not in self._wrong:
            return []
        return [f"new pods of {node} {WORDS[self._list]}" for node in sorted(self._nodes)]
