"""Which updates Windows nodes list as installed, asked by a run that looks into them anyway.

Kubernetes names no KB number (:mod:`conformance.facts.updates`).  Where a test has just read
something in a HostProcess pod of a node, the node is asked too, once in a run; it decides nothing,
so that a failure is told and no more.
"""

from collections.abc import Callable, Mapping

from conformance.errors import SuiteError, first_line
from conformance.evidence.node_memory import NodeMemory
from conformance.facts.updates import KB
from conformance.model.facts import Fact, Facts
from conformance.probe.host import Hosts


class NodeUpdates:
    """What is known of each node; thread-safe.  ``learn`` and ``learnt`` are those of
    :class:`NodeMemory`."""

    def __init__(
        self,
        facts: Facts,
        learn: Callable[[str, Fact[str]], object],
        learnt: Callable[[], Mapping[str, Fact[str]]] = dict,
    ) -> None:
        told = {node.name: node.update for node in facts.nodes if node.update.known}
        self._memory = NodeMemory(learn, learnt, known=told)
        self._reasons = {node.name: node.update.source for node in facts.nodes}

    def look(self, node: str, hosts: Hosts) -> None:
        """Ask a node, unless something names its update or it was asked before."""
        self._memory.of(node, lambda: self._read(node, hosts))

    def _read(self, node: str, hosts: Hosts) -> Fact[str]:
        try:
            found = [name.upper() for name in hosts.updates(node) if KB.fullmatch(name)]
        except SuiteError as error:
            return Fact(
                None,
                f"{self._reasons[node]}; the node itself could not be asked: {first_line(error)}",
            )
        if not found:
            return Fact(
                None,
                f"{self._reasons[node]}; Win32_QuickFixEngineering of the node lists no update",
            )
        return Fact(
            ", ".join(dict.fromkeys(found)),
            "updates that Win32_QuickFixEngineering of the node lists",
        )
