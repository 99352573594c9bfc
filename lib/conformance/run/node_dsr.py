"""Direct server return of Windows nodes as a run finds it out: kube-proxy's own command line before all else.

The command line needs a HostProcess pod on the node, which is made when a test first asks; where there can be none,
what detection read from logs and arguments counts (:mod:`conformance.facts.dsr`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from conformance.errors import EnvironmentBroken, MissingCapability, ProbeBroken
from conformance.facts import dsr
from conformance.model.facts import Fact, Facts
from conformance.run.node_memory import NodeMemory

PROGRAM = "kube-proxy.exe"
READ = f"command line of {PROGRAM}"
"""How the source of what was read on a node begins."""


class Hosts(Protocol):
    """What is needed of looking into nodes (``conformance.probe.host.Hosts``)."""

    def command_lines(self, node: str, program: str) -> list[str]:
        """Command lines of a program's processes on a Windows node."""


class NodeDsr:
    """What is known of each node; thread-safe.  ``learn`` and ``learnt`` are those of :class:`NodeMemory`."""

    def __init__(
        self,
        facts: Facts,
        learn: Callable[[str, Fact[bool]], object],
        learnt: Callable[[], Mapping[str, Fact[bool]]] = dict,
    ) -> None:
        self._facts, self._memory = facts, NodeMemory(learn, learnt)

    def of(self, node: str, hosts: Hosts) -> Fact[bool]:
        """Whether kube-proxy on a Windows node runs with ``--enable-dsr=true``; unknown says why.

        Raises ProbeBroken and EnvironmentBroken where the node could not be looked into and no log or argument says it.
        """
        return self._memory.of(node, lambda: self._read(node, hosts))

    def _read(self, node: str, hosts: Hosts) -> Fact[bool]:
        read = next(item for item in self._facts.nodes if item.name == node).dsr
        try:
            lines = list(hosts.command_lines(node, PROGRAM))
        except MissingCapability as lack:
            why = str(lack).partition("\n")[0]
            return read if read.known else Fact(None, f"{read.source}; its command line cannot be read: {why}")
        except (ProbeBroken, EnvironmentBroken):
            if read.known:
                return read
            raise
        for line in lines:
            if (value := dsr.told(line)) is not None:
                return Fact(value, f"{READ} on node {node}: {_cut(line)}")
        said = f"{_cut(lines[0])} does not name --enable-dsr" if lines else f"no {PROGRAM} runs on node {node}"
        return read if read.known else Fact(None, f"{read.source}; {said}")


def read_on_node(fact: Fact[bool]) -> bool:
    """Whether it was read in a HostProcess pod of the node, so that more can be asked there."""
    return fact.source.startswith(READ)


def _cut(line: str) -> str:
    return " ".join(line.split())[:300]
