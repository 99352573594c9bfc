# SPDX-License-Identifier: Apache-2.0
"""Decides from facts alone whether a claim applies to this cluster. An unknown fact decides
nothing. The exception is an unknown version, which counts as the newest; the result names this
assumption.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from conformance.catalog.claims import Claim, Conditions
from conformance.catalog.versions import NEWEST, Range, Version
from conformance.model.facts import Fact, Facts, NodeFacts

ALL = Conditions()
"""No condition: the claim applies to every cluster."""
LOOKED = frozenset({"CNI", "IPAM", "plane", "installation by"})
"""The kinds of conditions whose facts can be read on Windows nodes."""
ASSUMED = Fact(True, "not read, but assumed")
VERSION_REMEDY = "allow HostProcess pods, which read the version on the node, or name it by --windows-calico-version VERSION"
"""The advice for finding out Calico's version on Windows nodes."""


@dataclass(frozen=True)
class Applies:
    """The claim applies to this cluster; ``assumed`` lists the assumptions behind this answer."""

    assumed: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    """The facts that fulfil the claim's conditions, each with the place where it was read."""

    def __str__(self) -> str:
        """Return ``it is about this cluster: mode vxlan (IPPool default ...)``."""
        return (
            f"it is about this cluster: {'; '.join(self.shown)}"
            if self.shown
            else "it is about every cluster"
        )


@dataclass(frozen=True)
class NotApplicable:
    """The claim does not apply: the condition, and the fact that fails it."""

    key: str
    """The kind of condition: mode, platform, datastore, installation, CNI, IPAM, plane, single
    network, mesh, dual stack, nodes, kube-proxy in pods, Calico, Kubernetes, builds, DSR."""
    condition: str
    fact: str

    def __str__(self) -> str:
        """Return ``it is about mode vxlan; here: mode bgp (IPPool default ...)``."""
        return f"it is about {self.condition}; here: {self.fact}"


@dataclass(frozen=True)
class Undecided:
    """It is unknown whether the claim applies: the condition, and why its fact is unknown."""

    condition: str
    fact: str
    remedy: str = "give the run's user the right to read this"
    look: bool = False
    """True if a reading of the Windows nodes may decide the condition."""

    def __str__(self) -> str:
        """Return ``it is about mode vxlan, and it is not known whether that holds here: ...``."""
        return (
            f"it is about {self.condition}, and it is not known whether that holds here: "
            f"{self.fact}"
        )


Applicability = Applies | NotApplicable | Undecided


def applicability(claim: Claim, facts: Facts, part: Conditions = ALL) -> Applicability:
    """Return NotApplicable for the first condition that fails. If none fails, return Undecided for
    the first condition that cannot be decided. If all conditions hold, return Applies.

    ``part``: the further conditions of a part of the claim. The answer is cached with the facts.
    """
    key = (claim.applies, part, claim.needs.windows > 0)
    if key not in facts.derived:
        facts.derived[key] = _decide(facts, *key)
    answer: Applicability = facts.derived[key]
    return answer


def _decide(facts: Facts, claim: Conditions, part: Conditions, windows: bool) -> Applicability:
    outcomes = [*_check(claim, facts, windows), *_check(part, facts, windows)]
    for wanted in (NotApplicable, Undecided):
        for outcome in outcomes:
            if isinstance(outcome, wanted):
                return outcome
    held = [outcome for outcome in outcomes if isinstance(outcome, Applies)]
    return Applies(
        tuple(line for outcome in held for line in outcome.assumed),
        tuple(line for outcome in held for line in outcome.shown),
    )


def met(applies: Conditions, facts: Facts, node: NodeFacts) -> Applicability:
    """Return the applicability by these conditions alone. Only the versions of this node count."""
    outcomes = _check(applies, replace(facts, nodes=(node,)), node.os == "windows")
    return next((outcome for outcome in outcomes if not isinstance(outcome, Applies)), Applies())


def direct_server_return(node: NodeFacts) -> bool:
    """Return whether a node's Windows build supports direct server return: 1809 from revision
    17763.1432 on, every build from 18317 on (Calico's limitations page)."""
    build, revision = node.windows_build or (0, 0)
    return build >= 18317 or (build == 17763 and revision >= 1432)


def keeps_clients(node: NodeFacts) -> bool | None:
    """Return whether direct server return is in effect on a Windows node: the node's build supports
    it, and kube-proxy there is configured for it. Return None if the build supports it, but
    kube-proxy's configuration is unknown."""
    return node.dsr.value if direct_server_return(node) else False


def _check(applies: Conditions, facts: Facts, windows: bool) -> Iterator[Applicability]:
    """Yield an answer for each given condition.

    ``windows``: the facts of the Windows nodes themselves count, if there are Windows nodes.
    """
    for name, answer in CHECKS.items():
        wanted = getattr(applies, name)
        if wanted not in (None, ()):
            yield answer(wanted, facts, windows)


def _word(name: str, wanted: tuple[str, ...], fact: Fact[Any]) -> Applicability:
    condition = f"{name} {' or '.join(wanted)}"
    if fact.value is None:
        return Undecided(condition, fact.source, look=name in LOOKED)
    here = f"{name} {fact.value} ({fact.source})"
    if str(fact.value).casefold() in {word.casefold() for word in wanted}:
        return Applies(shown=(here,))
    return NotApplicable(name.removesuffix(" by"), condition, here)


def _flag(name: str, wanted: bool, fact: Fact[bool]) -> Applicability:
    words = {True: "on", False: "off", None: None}
    return _word(name, (str(words[wanted]),), Fact(words[fact.value], fact.source))


def _two_nodes(wanted: bool, facts: Facts) -> Applicability:
    words = {
        True: "one untainted Linux node, of the control plane, and one Windows node",
        False: "other nodes than these two",
    }
    nodes = (*facts.nodes, *facts.left_out)
    systems = sorted(node.os for node in nodes)
    linux = [node for node in nodes if node.os == "linux"]
    is_so = systems == ["linux", "windows"] and linux[0].control_plane and linux[0].worker
    counted = ", ".join(f"{systems.count(os)} {os}" for os in ("linux", "windows"))
    here = f"{counted} nodes" if systems != ["linux", "windows"] else words[is_so]
    if is_so is wanted:
        return Applies(shown=(here,))
    return NotApplicable("nodes", words[wanted], here)


def _kube_proxy(in_pods: bool, fact: Fact[bool]) -> Applicability:
    places = {True: "kube-proxy in pods", False: "kube-proxy in services of the hosts"}
    known = fact if fact.known else ASSUMED  # if this fact is unknown, the test itself reads it
    here = f"{places[known.value is True]} ({known.source})"
    if known.value is in_pods:
        return Applies(shown=(here,))
    return NotApplicable(places[True], places[in_pods], here)


def _on_nodes(name: str, wanted: tuple[str, ...], facts: Sequence[Fact[Any]]) -> Applicability:
    """Return the best result over the facts of several nodes. A single node that fits is enough. If
    no node fits and a fact is unknown, the result is undecided."""
    return _best(_word(name, wanted, fact) for fact in dict.fromkeys(facts))


def _best(answers: Iterable[Applicability]) -> Applicability:
    return min(answers, key=lambda answer: (Applies, Undecided, NotApplicable).index(type(answer)))


def _install(wanted: tuple[str, ...], facts: Facts, windows: bool) -> Applicability:
    own = [node.install or facts.install for node in facts.by_os("windows") if windows]
    return _on_nodes("installation by", wanted, own or [facts.install])


def _ipam(wanted: tuple[str, ...], facts: Facts, windows: bool) -> Applicability:
    own = [facts.ipam_of(node) for node in facts.by_os("windows") if windows]
    return _on_nodes("IPAM", wanted, own or [facts.ipam])


def _plane(wanted: tuple[str, ...], facts: Facts, windows: bool) -> Applicability:
    none = Fact[str]("none", "there is no Windows node")
    return _on_nodes("plane", wanted, [node.plane for node in facts.by_os("windows")] or [none])


def _calico(wanted: Range, facts: Facts, windows: bool) -> Applicability:
    """Return the applicability by Calico's versions on the nodes that the claim is about. A single
    node whose version is in the range is enough."""
    nodes = facts.by_os("windows") if windows else facts.nodes
    reported = [facts.calico_on(node.name) for node in nodes] or [facts.calico_version]
    return _best(
        _version("Calico", wanted, fact) if fact.known or not windows else _unknown(wanted, fact)
        for fact in dict.fromkeys(reported)
    )


def _unknown(wanted: Range, fact: Fact[str]) -> Undecided:
    text = f"Calico's version on Windows nodes is not known ({fact.source.removeprefix('not known: ')})"
    return Undecided(f"Calico {wanted}", text, look=True, remedy=VERSION_REMEDY)


def _version(name: str, wanted: Range, fact: Fact[str]) -> Applicability:
    condition = f"{name} {wanted}"
    assumed: tuple[str, ...] = ()
    try:
        version = Version.parse(fact.value or "")
    except ValueError:
        version = NEWEST
        assumed = (
            f"{name} version {fact.value or 'unknown'} ({fact.source}) is judged as the newest",
        )
    here = assumed[0] if assumed else f"{name} {fact.value} ({fact.source})"
    return Applies(assumed, (here,)) if version in wanted else NotApplicable(name, condition, here)


def _builds(wanted: Range, facts: Facts) -> Applicability:
    condition = f"Windows builds {wanted}"
    nodes = facts.by_os("windows")
    unknown = [node.name for node in nodes if node.windows_build is None]
    known = [node for node in nodes if node.windows_build is not None]
    if met := [node for node in known if Version.of(*(node.windows_build or ())) in wanted]:
        return Applies(
            shown=(
                f"Windows builds {wanted}: {', '.join(f'{node.name} {node.revision}' for node in met)}",
            )
        )
    if unknown:
        return Undecided(condition, f"the build of {', '.join(unknown)} is not known")
    there = ", ".join(f"{node.name} {node.revision}" for node in known)
    return NotApplicable("builds", condition, f"Windows nodes: {there or 'none'}")


def _dsr(wanted: bool, facts: Facts) -> Applicability:
    condition = f"Windows nodes {'with' if wanted else 'without'} direct server return"
    nodes = facts.by_os("windows")
    if not nodes:
        return NotApplicable("DSR", condition, "no Windows node")
    states = {keeps_clients(node) for node in nodes}
    if (
        wanted in states or None in states
    ):  # if a node's state is unknown, the test reads it on the node
        words = {True: "with it", False: "without it", None: "not known"}
        told_of = ", ".join(f"{node.name} {words[keeps_clients(node)]}" for node in nodes)
        return Applies(shown=(f"direct server return: {told_of}",))
    incapable = [node.name for node in nodes if not direct_server_return(node)]
    if wanted and len(incapable) == len(nodes):
        return NotApplicable(
            "DSR", condition, f"the builds of {', '.join(incapable)} do not support it"
        )
    reported = next(node.dsr for node in nodes if direct_server_return(node))
    return NotApplicable(
        "DSR",
        condition,
        f"kube-proxy has --enable-dsr={str(reported.value).lower()} ({reported.source})",
    )


CHECKS: Mapping[str, Callable[[Any, Facts, bool], Applicability]] = {
    "modes": lambda wanted, facts, windows: _word("mode", wanted, facts.mode),
    "platforms": lambda wanted, facts, windows: _word("platform", wanted, facts.platform),
    "datastores": lambda wanted, facts, windows: _word("datastore", wanted, facts.datastore),
    "cnis": lambda wanted, facts, windows: _word("CNI", wanted, facts.cni),
    "single_network": lambda wanted, facts, windows: _flag(
        "single network", wanted, facts.single_network
    ),
    "mesh": lambda wanted, facts, windows: _flag("mesh", wanted, facts.mesh),
    "dual_stack": lambda wanted, facts, windows: _flag("dual stack", wanted, facts.dual_stack),
    "two_nodes": lambda wanted, facts, windows: _two_nodes(wanted, facts),
    "kube_proxy_pods": lambda wanted, facts, windows: _kube_proxy(wanted, facts.kube_proxy_pods),
    "installs": _install,
    "ipam": _ipam,
    "windows_plane": _plane,
    "calico": _calico,
    "kubernetes": lambda wanted, facts, windows: _version(
        "Kubernetes", wanted, facts.kubernetes_version
    ),
    "windows_builds": lambda wanted, facts, windows: _builds(wanted, facts),
    "dsr": lambda wanted, facts, windows: _dsr(wanted, facts),
}
"""The function that decides each field of :class:`Conditions`, in the order of the report."""
