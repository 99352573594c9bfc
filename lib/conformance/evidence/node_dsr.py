"""Direct server return of Windows nodes as a run finds it out: kube-proxy's own command line before
all else.

Read whole it is the truth: a flag that is absent has its default, which is off in every release
(kubernetes pkg/proxy/winkernel).  Where ``--config`` names a file, the file alone says it, whatever
flags stand beside (:mod:`conformance.facts.dsr`).

The command line needs a HostProcess pod on the node, which is made when a test first asks; where
there can be none, what detection read from logs and arguments counts
(:mod:`conformance.facts.dsr`).
"""

from collections.abc import Callable, Mapping

from conformance.errors import EnvironmentBroken, MissingCapability, ProbeBroken, first_line
from conformance.evidence.node_memory import NodeMemory
from conformance.facts import dsr
from conformance.model.facts import Fact, Facts
from conformance.probe.host import Hosts

PROGRAM = "kube-proxy.exe"
READ = f"command line of {PROGRAM}"
"""How the source of what was read on a node begins."""


class NodeDsr:
    """What is known of each node; thread-safe.  ``learn`` and ``learnt`` are those of
    :class:`NodeMemory`."""

    def __init__(
        self,
        facts: Facts,
        learn: Callable[[str, Fact[bool]], object],
        learnt: Callable[[], Mapping[str, Fact[bool]]] = dict,
    ) -> None:
        self._facts = facts
        self._memory = NodeMemory(learn, learnt)

    def of(self, node: str, hosts: Hosts) -> Fact[bool]:
        """Whether kube-proxy on a Windows node runs with ``--enable-dsr=true``; unknown says why.

        Raises ProbeBroken and EnvironmentBroken where the node could not be looked into and no log
        or argument says it."""
        return self._memory.of(node, lambda: self._read(node, hosts))

    @staticmethod
    def source_vip(node: str, hosts: Hosts) -> Fact[str]:
        """The ``--source-vip`` of kube-proxy on a Windows node, which is read anew each time;
        unknown says why."""
        try:
            line = next(iter(hosts.command_lines(node, PROGRAM)), "")
            path = dsr.configuration(line)
            vip = dsr.source_vip(line, hosts.file(node, path) if path else "")
        except (MissingCapability, ProbeBroken, EnvironmentBroken) as error:
            return Fact(None, f"the {READ} on node {node} cannot be read: {first_line(error)}")
        return Fact(vip or None, f"{READ} on node {node}: {_cut(line) or 'it does not run'}")

    def _read(self, node: str, hosts: Hosts) -> Fact[bool]:
        read = next(item for item in self._facts.nodes if item.name == node).dsr
        try:
            lines = list(hosts.command_lines(node, PROGRAM))
        except MissingCapability as lack:
            why = str(lack).partition("\n")[0]
            return (
                read
                if read.known
                else Fact(None, f"{read.source}; its command line cannot be read: {why}")
            )
        except (ProbeBroken, EnvironmentBroken):
            if read.known:
                return read
            raise
        if not lines:
            return (
                read
                if read.known
                else Fact(None, f"{read.source}; no {PROGRAM} runs on node {node}")
            )
        where = f"{READ} on node {node}: {_cut(lines[0])}"
        if (path := dsr.configuration(lines[0])) is not None:
            return self._configured(node, path, where, hosts)
        if (value := dsr.told(lines[0])) is not None:
            return Fact(value, where)
        return Fact(False, f"{where}, without --enable-dsr, which means off")

    def _configured(self, node: str, path: str, where: str, hosts: Hosts) -> Fact[bool]:
        """What the file says that ``--config`` names."""
        try:
            text = hosts.file(node, path)
        except (ProbeBroken, EnvironmentBroken) as broken:
            return Fact(None, f"{where}; {path} could not be read: {first_line(broken)}")
        value = dsr.set_in(text)
        return Fact(
            bool(value),
            f"{where}; enableDSR in {path}" + ("" if value is not None else " is not set: off"),
        )


def read_on_node(fact: Fact[bool]) -> bool:
    """Whether it was read in a HostProcess pod of the node, so that more can be asked there."""
    return fact.source.startswith(READ)


def _cut(line: str) -> str:
    return " ".join(line.split())[:300]
