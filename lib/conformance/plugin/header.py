# SPDX-License-Identifier: Apache-2.0
"""The lines at the top of a run: the cluster, why this cluster, and the facts that decide what
applies."""

from collections import Counter
from collections.abc import Sequence

from conformance.catalog import (
    KNOWN,
    NEXT,
    Applies,
    NotApplicable,
    Version,
    applicability,
    catalog,
)
from conformance.facts.calico_api import ADDRESS
from conformance.facts.windows_troubles import windows_troubles
from conformance.model.by_key import by_key
from conformance.model.endpoint import OS
from conformance.model.facts import Fact, Facts
from conformance.pods.coverage import Covered, unlike_covered
from conformance.pods.placement import Placement
from conformance.qualify.sets import suite_parts
from conformance.run.run import Run
from conformance.schedule import groups, load
from conformance.settings import Settings

NO_WATCH = "--no-watch: whether policies stay in force all through the run (POL-1) is not watched"
SHOWN = 3
"""The number of kinds of uncovered nodes that the header names; further kinds are only counted."""


def lines(run: Run, *, whole: bool) -> list[str]:
    """Return six lines for pytest's header, and notes.

    ``whole``: also return which nodes are covered and which claims are left out.
    """
    label = run.connection.label if run.connection else "none"
    busy = load.busy()
    late = "the lab on it" if run.shares_machine else "the suite's requests and answers"
    text = [
        f"cluster: {label} (chosen by {run.choice.why})",
        f"note: {run.connection.unverified}"
        if run.connection and run.connection.unverified
        else "",
        *(_of_facts(run, run.facts, whole=whole) if run.facts else ()),
        f"note: this machine is busy ({busy}): {late} may be late, "
        "and budgets are extended by the measured lag"
        if busy
        else "",
        "" if run.settings.workers.watch else f"note: {NO_WATCH}",
        f"workers: {run.workers}" if run.workers else "",
        f"run: {run.settings.run_id}, reports in {run.directory.path}" if run.directory else "",
    ]
    return list(filter(None, text))


def _of_facts(run: Run, facts: Facts, *, whole: bool) -> list[str]:
    """Return the lines about the cluster, and about the claims that do not apply to it."""
    coverage = coverage_lines(facts, run.settings)
    claims = (
        [*coverage, *groups.lines(catalog(), facts, run.settings), *parts_elsewhere(facts)]
        if whole
        else [
            groups.counted_line(catalog(), facts, run.settings),
            *(line for line in coverage if line.startswith("note: ")),
        ]
    )
    policies = run.inspection.policies.lines if run.inspection else []
    notes = (f"note: {line}" for line in (*assumptions(facts), *policies))
    return [*facts_lines(facts, whole=whole), *claims, *notes]


def assumed_versions(settings: Settings) -> list[str]:
    """Return the versions of Calico that the user named in place of detected versions."""
    named = {
        "judged as Calico {}, by --calico-version": settings.calico_version,
        "Windows nodes judged as Calico {}, by --windows-calico-version": (
            settings.windows_calico_version
        ),
    }
    return [text.format(version) for text, version in named.items() if version]


def facts_lines(facts: Facts, *, whole: bool = True) -> list[str]:
    """Return lines with nodes and facts. The operator's status is included only if something is
    wrong, or with ``whole``.
    """
    named: list[tuple[str, Fact[str]]] = [
        ("Calico", facts.calico_version),
        ("mode", facts.mode),  # type: ignore[list-item]
        ("datastore", facts.datastore),  # type: ignore[list-item]
        ("installed by", installs(facts)),
        ("platform", facts.platform),
        ("CNI", facts.cni),
        ("IPAM", facts.ipam),
        ("Kubernetes", facts.kubernetes_version),
        ("kube-proxy", facts.kube_proxy_mode),
    ]
    status = facts.tigera_status.value
    values = ", ".join(
        [
            *(f"{name} {_value(fact)}" for name, fact in named),
            f"plane {planes(facts)}",
            f"DSR on Windows {dsr(facts)}",
            f"this suite knows Calico up to {KNOWN}",
        ]
    )
    return [
        f"facts: {nodes(facts, 'linux')}; {nodes(facts, 'windows')}; evidence: {facts.evidence}",
        f"       {values}",
        *(
            [f"       TigeraStatus: {status}"]
            if status and (whole or not status.startswith("all "))
            else []
        ),
    ]


def parts_elsewhere(facts: Facts) -> list[str]:
    """Return the parts of claims that do not (or perhaps do not) apply to this cluster although the
    claims themselves apply.

    Parts with the same reason share a line.
    """
    found: dict[tuple[str, str], list[str]] = {}
    for ident, parts in suite_parts().items():
        claim = catalog()[ident]
        for part in parts if isinstance(applicability(claim, facts), Applies) else ():
            answer = applicability(claim, facts, part.applies)
            if not isinstance(answer, Applies):
                word = "not about this cluster" if isinstance(answer, NotApplicable) else "not here"
                found.setdefault((word, str(answer)), []).append(f"{ident} ({part.part})")
    return [f"{word}: part {', '.join(parts)}: {why}" for (word, why), parts in found.items()]


def coverage_lines(facts: Facts, settings: Settings) -> list[str]:
    """Return the nodes that the run decides on, each with the reason, and the builds that the
    user's choice leaves out."""
    found = covered_nodes(facts, settings)
    names = {item.node.name for item in found}
    others = [node for node in facts.nodes if node.name not in names]
    builds = {node.build for node in facts.by_os("windows")} - {item.node.build for item in found}
    usable = Placement(facts, settings.tolerations).usable("linux")
    unlike = unlike_covered(usable, [item.node for item in found if item.node.os == "linux"])
    return [
        f"covered: {', '.join(f'{item.node.name} ({item.why})' for item in found) or 'no node'}",
        *_line(
            "         not {}",
            [f"{one.name}{one.unready and f' (not ready: {one.unready})'}" for one in others],
        ),
        *_line("note: no node of Windows build {} is covered", sorted(builds)),
        *_left_out_lines(facts),
        *_line(
            "note: nothing is decided about nodes that are not ready: {}",
            [f"{node.name} ({node.unready})" for node in others if node.unready],
        ),
        *([_unlike_line(unlike)] if unlike else []),
    ]


def _left_out_lines(facts: Facts) -> list[str]:
    """Return the nodes that the run does not decide on, with the reason: nodes without Calico, and
    virtual nodes."""
    return [
        *_line(
            "note: nothing is decided about nodes without Calico: {}",
            [f"{node.name} ({node.without_calico})" for node in facts.left_out if not node.virtual],
        ),
        *_line(
            "note: virtual nodes do not count as nodes of the cluster: {}",
            [f"{node.name} ({node.virtual})" for node in facts.left_out if node.virtual],
        ),
    ]


def _line(form: str, words: Sequence[str]) -> list[str]:
    """Return one line with the words inserted; return no line if there are no words."""
    return [form.format(", ".join(words))] if words else []


def _unlike_line(unlike: Sequence[str]) -> str:
    more = f" and {len(unlike) - SHOWN} more" if len(unlike) > SHOWN else ""
    return (
        f"note: no Linux node with {'; '.join(unlike[:SHOWN])}{more} is covered; "
        "cover more nodes with --max-nodes-per-os or --nodes"
    )


def covered(facts: Facts, settings: Settings) -> dict[str, str]:
    """Map each covered node to the reason why it is covered."""
    return {item.node.name: item.why for item in covered_nodes(facts, settings)}


def covered_nodes(facts: Facts, settings: Settings) -> list[Covered]:
    """Return the nodes that the run decides on, Linux first."""
    placement = Placement(facts, settings.tolerations, cover=settings.cover)
    systems: tuple[OS, ...] = ("linux", "windows")
    return [item for os in systems for item in placement.coverage(os)]


def nodes(facts: Facts, os: OS) -> str:
    """Return ``4 Linux nodes`` or ``2 Windows nodes (10.0.20348.2762, 10.0.17763.1999)``."""
    found = facts.by_os(os)
    name = "Windows" if os == "windows" else "Linux"
    builds = Counter(node.kernel_version for node in found)
    detail = f" ({', '.join(builds)})" if os == "windows" and found else ""
    return f"{len(found)} {name} node{'' if len(found) == 1 else 's'}{detail}"


def assumptions(facts: Facts) -> list[str]:
    """Return notes on assumptions: unknown facts, a single version assumed for several nodes, and
    faults that Calico does not cause."""
    return [
        *_version(facts),
        *_edition(facts),
        *_versions_on_nodes(facts),
        *_windows_versions(facts),
        *_felix(facts),
        *(f"{group} is listed but not served now: {why}" for group, why in facts.apis_away.items()),
        *_unannounced(facts),
        *windows_troubles(facts.nodes),
    ]


def _edition(facts: Facts) -> list[str]:
    edition = facts.calico_edition.value
    line = (
        f"this is {edition}: claims are judged as for Calico {facts.calico_version.value}, "
        "which it is built on"
    )
    return [] if edition in (None, "Calico") else [line]


def _versions_on_nodes(facts: Facts) -> list[str]:
    """Return a line if nodes run different releases of Calico, or another release than the cluster
    reports. Suffixes of versions are ignored."""
    nodes = by_key((fact.value, node) for node, fact in facts.calico_on_nodes.items() if fact.value)
    there = [f"{version} on {', '.join(names)}" for version, names in nodes.items()]
    releases = {known_release(version) for version in nodes}
    if (cluster := facts.calico_version.value) and known_release(cluster) not in releases and nodes:
        there.append(f"the cluster reports {cluster}")
    line = (
        f"nodes run different versions of Calico ({'; '.join(there)}): claims about Windows are "
        "judged by the version of the Windows nodes"
    )
    return [line] if len(releases) > 1 or len(there) > len(nodes) else []


def _unannounced(facts: Facts) -> list[str]:
    """Return the nodes without an annotation of their tunnel's address, if other nodes have one."""
    missing = [node.name for node in facts.nodes if ADDRESS not in node.annotations]
    if facts.mode.value == "policy-only" or len(missing) == len(facts.nodes):
        return []
    return _line(
        f"annotation {ADDRESS} is missing on {{}}: Calico has announced no address there, and "
        "other nodes have no route to its pods; read calico-node's log on that node",
        missing,
    )


def _windows_versions(facts: Facts) -> list[str]:
    unknown = [node.name for node in facts.by_os("windows") if not facts.calico_on(node.name).known]
    return _line(
        "Calico's version on Windows nodes is not known ({}): tests that depend on it read "
        "it on the nodes; --windows-calico-version names it",
        unknown,
    )


def _felix(facts: Facts) -> list[str]:
    unknown = [
        f"{node.name} ({node.felix.source.removeprefix('not known: ')})"
        for node in facts.by_os("windows")
        if node.felix and not node.felix.known
    ]
    return _line("only a reading on the node itself shows whether Calico runs there: {}", unknown)


def _version(facts: Facts) -> list[str]:
    """Return a note that an unreadable version is judged as the newest, or a note that the suite
    does not know the release."""
    version = facts.calico_version.value or "unknown"
    release = known_release(version)
    if isinstance(release, str):
        return [
            f"the Calico version is {version} ({facts.calico_version.source}): claims are judged as for the newest version; "
            "name the version by --calico-version"
        ]
    newer = (
        f"Calico {version} is newer than this suite knows ({KNOWN}): its tables and known issues "
        "end there"
    )
    return [newer] if release >= NEXT else []


def known_release(text: str) -> Version | str:
    """Return the release that a version names, or the text itself if it names none."""
    try:
        return Version.parse(text)
    except ValueError:
        return text


def installs(facts: Facts) -> Fact[str]:
    """Return how Calico was installed, with the Windows nodes on which this differs."""
    others = [
        f"{node.install.value} on {node.name}" for node in facts.by_os("windows") if node.install
    ]
    return Fact(", ".join([facts.install.value or "unknown", *others]), facts.install.source)


def planes(facts: Facts) -> str:
    """Return the network of Windows nodes' pods, such as ``overlay``; if nodes differ, all of
    them."""
    return (
        " and ".join(sorted({node.plane.value or "unknown" for node in facts.by_os("windows")}))
        or "unknown"
    )


def dsr(facts: Facts) -> str:
    """Return kube-proxy's DSR setting: ``on``, or ``on (windows-2022), unknown (windows-2019)``."""
    words = {True: "on", False: "off", None: "unknown"}
    found = by_key((words[node.dsr.value], node.name) for node in facts.by_os("windows"))
    if len(found) < 2:
        return next(iter(found), "unknown")
    return ", ".join(f"{word} ({', '.join(names)})" for word, names in found.items())


def _value(fact: Fact[str]) -> str:
    return "unknown" if fact.value is None else str(fact.value)
