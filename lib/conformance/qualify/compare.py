# SPDX-License-Identifier: Apache-2.0
"""The comparison of two reports: claims that became worse or better, new and missing claims, and
differences of the clusters.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from conformance.model.by_key import by_key
from conformance.model.claim import ClaimResult
from conformance.model.codec import from_plain, to_plain
from conformance.model.counted import counted
from conformance.model.explanation import unnamed
from conformance.model.facts import Facts
from conformance.model.installed import Installed
from conformance.model.markdown import cell
from conformance.model.verdict import ClaimVerdict, precedence
from conformance.qualify.stored import Report, versions
from conformance.qualify.waivers import Waiver, waiver_for
from conformance.verdicts.acceptable import UNDECIDED, Turn, turn
from conformance.verdicts.claims import ClaimOutcome

NOISE = 1.25
"""A convergence time counts as changed only if its median changed by more than this factor, and by
more than the two limits below."""
NOISE_SECONDS = 0.5
"""The minimum change of the median that counts, in seconds: polling alone explains a smaller
change."""
CHANGES = 3
"""The number of policy changes that suffices to know the spread of their times. With so many policy
changes, the median must also change by more than the distance from the median to the 95th
percentile in each of the runs."""


NAMED = 3
"""The maximum number of parts and builds of a claim that its line names; if there are more, the
line gives their number."""
RECOVERY = "seconds to a new connection"
"""The name of the figure that tests of disturbed connections record
(:mod:`conformance.expect.subjects.connections_during_change`)."""


@dataclass(frozen=True, kw_only=True)
class Turned:
    """A claim with a changed verdict, as a whole or on a Windows build."""

    claim: str
    where: str
    """The place of the change: ``Windows 20348``, ``part linux->windows``, or empty for the whole
    claim."""
    before: str
    now: str
    turn: Turn
    reason: str
    waiver: str = ""
    """The waiver that accepts the present verdict; empty if there is none, or if the claim is not
    worse."""

    def __str__(self) -> str:
        """Return ``DEMO-7, Windows 20348: CONFIRMED -> VIOLATED (reason)``; the line of a waived
        claim ends with its waiver."""
        place = f", {self.where}" if self.where else ""
        why = self.waiver or unnamed(self.reason, self.claim)
        return f"{self.claim}{place}: {self.before} -> {self.now}" + (f" ({why})" if why else "")


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """All differences between two reports."""

    old: str
    new: str
    turned: tuple[Turned, ...]
    appeared: tuple[str, ...]
    """Claims that only the newer report has."""
    disappeared: tuple[str, ...]
    parts: tuple[str, ...]
    """A line for each claim whose decided parts or Windows builds differ between the reports."""
    facts: tuple[str, ...]
    times: tuple[str, ...]
    flaky: tuple[str, ...] = ()
    """Claims whose attempts disagree in the newer report but not in the older report."""

    def of(self, which: Turn) -> tuple[Turned, ...]:
        """Return the changes of one kind (such as ``worse``) that no waiver accepts."""
        return tuple(turned for turned in self.turned if turned.turn == which and not turned.waiver)

    @property
    def waived(self) -> tuple[Turned, ...]:
        """Return the claims that became worse, but only in parts and on builds where waivers accept
        this."""
        return tuple(turned for turned in self.turned if turned.waiver)

    @property
    def cause(self) -> str:
        """Return the cause of the comparison's exit code in one line; empty for 0."""
        if worse := dict.fromkeys(turned.claim for turned in self.of("worse")):
            return f"{', '.join(worse)} became worse"
        lost = dict.fromkeys(turned.claim for turned in self.of("undecided now"))
        return f"no longer decided: {', '.join(lost)}" if lost else ""

    @property
    def exit_code(self) -> int:
        """Return 1 if a result is no longer acceptable, 6 if a result is no longer decided, else
        0."""
        return 1 if self.of("worse") else 6 if self.of("undecided now") else 0


def compare(old: Report, new: Report, waivers: Sequence[Waiver] = ()) -> Comparison:
    """Return the differences of the newer report from the older report; ``waivers`` accept worse
    results.
    """
    shared = [claim for claim in new.claims if claim in old.claims]
    return Comparison(
        old=_label(old),
        new=_label(new),
        turned=tuple(
            _accepted(turned, new.claims[claim], waivers)
            for claim in shared
            for turned in _turned(old.claims[claim], new.claims[claim], new.builds)
        ),
        appeared=tuple(claim for claim in new.claims if claim not in old.claims),
        disappeared=tuple(claim for claim in old.claims if claim not in new.claims),
        parts=tuple(
            line for claim in shared for line in _other_parts(old.claims[claim], new.claims[claim])
        ),
        facts=(
            *_differing(_connection(old), _connection(new)),
            *_differing(_flat(old.facts), _flat(new.facts)),
            *_other_versions(old, new),
            *_other_suites(old, new),
        ),
        times=tuple(_other_times(old, new)),
        flaky=tuple(line for line in _flaky(new) if line not in _flaky(old)),
    )


def _accepted(turned: Turned, claim: ClaimOutcome, waivers: Sequence[Waiver]) -> Turned:
    """Return the change; if the claim became worse, and waivers accept this in every part and on
    every build, add a waiver."""
    if turned.turn != "worse":
        return turned
    places = {
        (result.part, build)
        for result in claim.results
        for build, verdict in _places(result)
        if str(verdict) == turned.now
        and turned.where in ("", f"part {result.part}", f"Windows {build}")
    } or {("", "")}
    found = [
        waiver_for(waivers, turned.claim, ClaimVerdict(turned.now), part=part, build=build)
        for part, build in places
    ]
    return replace(turned, waiver=str(found[0])) if all(found) else turned


def _places(result: ClaimResult) -> Iterator[tuple[str, ClaimVerdict]]:
    """Yield Windows build and verdict of each decision of a result, and the result's own verdict if
    no decision has it."""
    for decision in result.decisions:
        yield from ((build, decision.verdict) for build in decision.about or ("",))
    if not any(decision.verdict is result.verdict for decision in result.decisions):
        yield "", result.verdict


def _flaky(report: Report) -> list[str]:
    return [
        f"{ident}: attempts disagree, the worst counts"
        for ident, claim in report.claims.items()
        if claim.flaky
    ]


def _label(report: Report) -> str:
    version = report.facts.calico_version.value if report.facts else None
    run = report.run
    evidence = report.evidence or "no cluster"
    short = f"; cut short: {report.cut_short}" if report.cut_short else ""
    return (
        f"{run.get('id')} of {run.get('started')}, Calico {version or 'unknown'}, {evidence}"
        f"{', over an unverified connection' if report.unverified else ''}{short}"
    )


def _turned(old: ClaimOutcome, new: ClaimOutcome, builds: Sequence[str]) -> Iterator[Turned]:
    """Yield changes of the whole claim, and by part and Windows build if both reports have details.

    ``builds``: the builds of the newer report's cluster. A build that is in this cluster but was
    not examined is no longer decided. A build that is not in this cluster is ignored.
    """
    if old.verdict is not new.verdict:
        yield _one(new, "", old.verdict, new.verdict, new.reason)
    if old.results and new.results:
        yield from _turned_parts(old, new)
        yield from _turned_builds(old, new, builds)


def _turned_parts(old: ClaimOutcome, new: ClaimOutcome) -> Iterator[Turned]:
    now = _by_part(new)
    for part, before in _by_part(old).items():
        if part and before is not now.get(part):
            same = (
                result
                for result in new.results
                if result.part == part and result.verdict is now[part]
            )
            reason = next((result.reason for result in same), GONE)
            yield _one(new, f"part {part}", before, now.get(part), reason)


def _turned_builds(old: ClaimOutcome, new: ClaimOutcome, builds: Sequence[str]) -> Iterator[Turned]:
    now = _by_build(new)
    # If the whole claim is undecided, the claim's own line reports that no build was reached.
    undecided = new.verdict in UNDECIDED
    for build, before in sorted(_by_build(old).items()):
        lost = build in builds and not undecided
        if before is now.get(build) or (build not in now and not lost):
            continue
        reasons = (
            decision.reason
            for decision in new.decisions
            if build in decision.about and decision.verdict is now.get(build)
        )
        yield _one(new, f"Windows {build}", before, now.get(build), next(reasons, GONE))


GONE = "the newer run decided nothing about it"


def _one(
    claim: ClaimOutcome,
    where: str,
    before: ClaimVerdict | None,
    now: ClaimVerdict | None,
    reason: str,
) -> Turned:
    words = [str(verdict) if verdict else "not selected" for verdict in (before, now)]
    return Turned(
        claim=claim.claim.id,
        where=where,
        before=words[0],
        now=words[1],
        turn=turn(claim.claim.kind, before, now),
        reason=reason,
    )


def _by_part(claim: ClaimOutcome) -> dict[str, ClaimVerdict]:
    return _worst(claim, ((result.part, result.verdict) for result in claim.results))


def _by_build(claim: ClaimOutcome) -> dict[str, ClaimVerdict]:
    verdicts = (
        (build, decision.verdict) for decision in claim.decisions for build in decision.about
    )
    return _worst(claim, verdicts)


def _worst(
    claim: ClaimOutcome, verdicts: Iterable[tuple[str, ClaimVerdict]]
) -> dict[str, ClaimVerdict]:
    """Return the verdict that counts for each part or build."""
    order = precedence(claim.claim.kind)
    found: dict[str, ClaimVerdict] = {}
    for place, verdict in verdicts:
        found[place] = min(found.get(place, verdict), verdict, key=order.index)
    return found


def _other_parts(old: ClaimOutcome, new: ClaimOutcome) -> Iterator[str]:
    if not (old.results and new.results):
        return
    for what, before, now in (
        ("part", {result.part for result in old.results}, {result.part for result in new.results}),
        ("Windows build", set(_by_build(old)), set(_by_build(new))),
    ):
        yield from (
            f"{new.claim.id}: {what} {sign}: {', '.join(sorted(parts - {''}))}"
            for sign, parts in (("only before", before - now), ("only now", now - before))
            if parts - {""}
        )


def _differing(before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each name with a changed text."""
    yield from (
        f"{name}: {before.get(name, 'nothing')} -> {now.get(name, 'nothing')}"
        for name in {**now, **before}
        if before.get(name) != now.get(name)
    )


def _connection(report: Report) -> dict[str, str]:
    return {"connection to the API server": report.unverified or "verified"}


def _flat(facts: Facts | None) -> dict[str, str]:
    """Return the facts to compare: values without their sources, and nodes by operating system,
    build and update.
    """
    if facts is None:
        return {}
    found: dict[str, str] = {}
    for name, entry in to_plain(facts).items():
        if isinstance(entry, dict) and set(entry) == {"value", "source"}:
            value = entry["value"]
            found[name.replace("_", " ")] = (
                value if isinstance(value, str) else json.dumps(value, sort_keys=True)
            )
    for system in ("linux", "windows"):
        nodes = facts.by_os(system)
        builds = sorted(
            {
                f"{node.revision or node.kernel_version} {node.update.value or ''}".strip()
                for node in nodes
            }
        )
        found[f"{system} nodes"] = f"{len(nodes)} ({', '.join(builds)})"
    for (build, name), values in _hosts(facts).items():
        found[f"Windows {build}: {name}"] = ", ".join(sorted(values))
    windows = facts.by_os("windows")
    versions_there = {facts.calico_on(node.name).value or "unknown" for node in windows}
    planes = {node.plane.value or "unknown" for node in windows}
    return {
        **found,
        "Calico on Windows nodes": ", ".join(sorted(versions_there)),
        "plane of Windows nodes": ", ".join(sorted(planes)),
    }


def _hosts(facts: Facts) -> dict[tuple[str, str], set[str]]:
    """Map each pair of build and property (read in Windows hosts) to the values of the build's
    nodes."""
    found: dict[tuple[str, str], set[str]] = {}
    for node in facts.by_os("windows"):
        for name, value in (node.differences.value or {}).items():
            found.setdefault((node.build, name), set()).add(value)
    return found


def _other_versions(old: Report, new: Report) -> Iterator[str]:
    """Yield components with another version, or with another image under the same tag. Yield
    nothing if a report names no components."""
    before, now = (versions(from_plain(Installed, report.installed)) for report in (old, new))
    yield from (
        f"{' '.join(what)}: {before.get(what, 'nothing')} -> {now.get(what, 'nothing')}"
        for what in (sorted(before.keys() | now.keys()) if before and now else ())
        if before.get(what) != now.get(what)
    )


def _other_suites(old: Report, new: Report) -> Iterator[str]:
    """Yield differences of the suites that judged: version, catalog or sets of claims, if both
    reports name them."""
    before, now = (report.suite for report in (old, new))
    yield from (
        f"the suite's {name}: {before[name][:12]} -> {now[name][:12]}"
        for name in ("version", "commit", "catalog", "sets")
        if before.get(name) and now.get(name) and before[name] != now[name]
    )


def _other_times(old: Report, new: Report) -> Iterator[str]:
    before = _effects(old)
    now = _effects(new)
    for what in sorted(before.keys() & now.keys()):
        known = min(before[what].get("changes", 0), now[what].get("changes", 0)) >= CHANGES
        for figure in ("first_correct", "stable", "exposure"):
            previous = before[what].get(figure)
            other = now[what].get(figure)
            if (
                previous
                and other
                and _moved(
                    previous["p50"], other["p50"], _spread(previous, other) if known else 0.0
                )
            ):
                seconds = f"median {previous['p50']:.2f} s -> {other['p50']:.2f} s"
                yield f"policy effect, {what}, {figure.replace('_', ' ')}: {seconds}"
    earlier = _recoveries(old)
    later = _recoveries(new)
    yield from (
        f"recovery, {what}: {earlier[what]:.2f} s -> {later[what]:.2f} s"
        for what in sorted(earlier.keys() & later.keys())
        if _moved(earlier[what], later[what], 0.0)
    )


def _effects(report: Report) -> Mapping[str, Any]:
    return report.statistics.get("policy_effect") or {}


def _recoveries(report: Report) -> dict[str, float]:
    """Map each claim and part to the longest time until a new connection was established again, in
    seconds."""
    found: dict[str, float] = {}
    for ident, claim in report.claims.items():
        for result in claim.results:
            seconds = result.measured.get(RECOVERY)
            if isinstance(seconds, int | float):
                what = f"{ident} ({result.part})" if result.part else ident
                found[what] = max(found.get(what, 0.0), float(seconds))
    return found


def _spread(*figures: Mapping[str, float]) -> float:
    """Return the largest distance, in seconds, from the median to the 95th percentile in any of the
    figures."""
    return max(item["p95"] - item["p50"] for item in figures)


def _moved(before: float, now: float, noise: float) -> bool:
    smaller, larger = sorted((before, now))
    return larger - smaller > max(NOISE_SECONDS, noise) and larger > NOISE * smaller


SECTIONS: Sequence[tuple[Turn, str]] = (
    ("worse", "Worse"),
    ("undecided now", "Decided before and not now"),
    ("decided now", "Decided now"),
    ("better", "Better"),
    ("same", "Another verdict, as acceptable as before"),
)


def _sections(found: Comparison, whole: bool) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield the non-empty sections: title with the number of entries, and lines."""
    turned = [(title, found.of(which)) for which, title in SECTIONS]
    for title, changes in (turned[0], ("Worse, waived", found.waived), *turned[1:]):
        lines = [str(change) for change in changes] if whole else _by_claim(changes)
        if changes:
            yield (
                f"{title} ({len(changes) if whole else len({change.claim for change in changes})})",
                lines,
            )
    rest = {
        "FLAKY now": found.flaky,
        "New claims": found.appeared,
        "Claims that no longer exist": found.disappeared,
        "Other parts or builds": found.parts,
        "Facts that differ": found.facts,
        "Convergence times that changed": found.times,
    }
    yield from ((f"{title} ({len(lines)})", lines) for title, lines in rest.items() if lines)


def _by_claim(turned: Sequence[Turned]) -> list[str]:
    """Return a line for each claim with its changed parts and builds; claims with the same change
    share a line.
    """
    found = by_key((change.claim, change) for change in turned)
    alike: dict[str, list[str]] = {}
    for first, *others in found.values():
        places = counted(len(others), "part", "parts and builds") if len(others) > NAMED else None
        more = places or ", ".join(change.where for change in others)
        text = str(first).removeprefix(first.claim) + (f"; {more}" if more else "")
        alike.setdefault(text, []).append(first.claim)
    return [f"{', '.join(claims)}{text}" for text, claims in alike.items()]


def as_text(found: Comparison, whole: bool = False) -> str:
    """Return the comparison as text for a terminal. ``whole``: with a line for each part and build
    of a claim."""
    lines = [f"old  {found.old}", f"new  {found.new}"]
    for title, entries in _sections(found, whole):
        lines += ["", title, *(f"  {line}" for line in entries)]
    return "\n".join(lines if len(lines) > 2 else [*lines, "", "They agree."]) + "\n"


def as_markdown(found: Comparison, whole: bool = False) -> str:
    """Return the comparison as Markdown for a release page. ``whole`` as in :func:`as_text`."""
    lines = [
        "| | report |",
        "| --- | --- |",
        f"| old | {cell(found.old)} |",
        f"| new | {cell(found.new)} |",
    ]
    for title, entries in _sections(found, whole):
        lines += ["", f"## {title}", *(f"- {cell(line)}" for line in entries)]
    return "\n".join(lines if len(lines) > 4 else [*lines, "", "They agree."]) + "\n"


def as_json(found: Comparison, whole: bool = True) -> str:
    """Return all fields of :class:`Comparison`, for programs."""
    return json.dumps(to_plain(found), indent=1, ensure_ascii=False) + "\n"
