"""One HTML file per run, for people: opened from disk, without network, framework or plotting library.

Made from ``conformance.json`` alone, so that any report can be shown again.  Everything that a cluster named (pods,
events, logs) is text to the template, which escapes it.
"""

import functools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from conformance.model.codec import from_plain
from conformance.model.counted import counted
from conformance.model.decision import Decision
from conformance.model.explanation import unnamed
from conformance.model.verdict import PRECEDENCE
from conformance.report import summed_up
from conformance.report.matrix import DIRECTIONS
from conformance.report.pack import private, scrubbed
from conformance.report.page.drawing import effect_chart, recovery_chart
from conformance.report.page.parts import BELOW, SHOWN, parts, run_again, shareable
from conformance.report.terminal import BESIDE, cut, meaning, printable
from conformance.verdicts.claims import UNSEEN
from conformance.verdicts.decisions import by_build

FOLDER = Path(__file__).parent
LINUX = "Linux and cluster"
"""Column of decisions that are about no Windows build."""
RECOVERY = "seconds to a new connection"
"""Name of the figure that tests of disturbed connections keep."""
OPEN = ("INCONCLUSIVE", "UNMET", "ADVISED", "NOT_RUN")
"""What claims are counted as that someone has to look at, none of them violated."""
FOLDED = {
    "NOT_APPLICABLE": "not about this cluster",
    summed_up.UNTESTED: "without a test yet",
    summed_up.HAND: "that need a person",
    summed_up.UNSELECTED: "not selected",
}
"""Claims of which nothing is to be seen, behind a line for each of these words."""
KEPT = 20_000
AT_LEAST = 500
TOGETHER = 400_000
"""Characters of a failure's attachment that the page shows, fewer where there are many; the file has the rest."""
BUNDLED = (".txt", ".yaml", ".json")
SINCE: Mapping[str, Any] = {
    "evidence": None,
    "seconds": 0,
    "flaky": False,
    "half": "",
    "applies": "",
    "inapplicable_parts": {},
    "known_issues": [],
    "danger": "",
}
"""Fields of claims that the oldest reports do not have."""
NOT_READ = {"cluster_uid": "", "components": [], "kubelets": {}, "unread": []}
"""What runs on the cluster, of a report without it."""


def bundles(plain: Mapping[str, Any], folder: Path) -> dict[str, list[tuple[str, str]]]:
    """Test that failed to names and texts of what it left, read below the run's directory; cut where they are long."""
    files = [
        (test["test"], folder / name)
        for test in plain["tests"]
        if test["verdict"] in ("VIOLATED", "INCONCLUSIVE")
        for name in test.get("attachments") or ()
        if (folder / name).suffix in BUNDLED and (folder / name).is_file()
    ]
    kept = max(AT_LEAST, min(KEPT, TOGETHER // max(len(files), 1)))
    found: dict[str, list[tuple[str, str]]] = {}
    for test, path in files:
        text = path.read_text(encoding="utf-8", errors="replace")
        more = (
            f"\n... {len(text) - kept} characters more in {path.relative_to(folder)}"
            if len(text) > kept
            else ""
        )
        found.setdefault(test, []).append((path.name, text[:kept] + more))
    return found


def render(
    plain: Mapping[str, Any],
    *,
    difference: Sequence[str] = (),
    failures: Mapping[str, Sequence[tuple[str, str]]] | None = None,
    linked: bool = False,
) -> str:
    """The page of a report.

    ``plain``: conformance.json of schema 3 or 2; ``difference``: lines of a comparison; ``failures``: :func:`bundles`;
    ``linked``: whether the page lies in the run's directory, so that files there can be links.
    """
    claims = sorted(
        ({**SINCE, **claim} for claim in plain["claims"]),
        key=lambda claim: summed_up.WORDS.index(summed_up.word(claim)),
    )
    page: str = _template().render(
        **_top(plain),
        **_not_as_expected(plain, claims),
        **_tables(plain, claims),
        **_charts(plain, claims),
        **_each_claim(plain, claims),
        **_the_cluster(plain),
        difference=list(difference),
        turns=[line for line in difference if re.fullmatch(r"\S.* \(\d+\)", line)],
        failures=failures or {},
        linked=linked,
    )
    return page


def _top(plain: Mapping[str, Any]) -> dict[str, Any]:
    """The page's head, its gates and waivers, and the notes below the claims."""
    return {
        "run": plain["run"],
        "suite": plain.get("suite") or {},
        "headline": headline(plain),
        "meaning": meaning(plain),
        "cluster": _cluster(plain["run"]["cluster"]),
        "versions": _versions(plain.get("facts") or {}),
        "gates": summed_up.gates(plain),
        "beside": summed_up.beside_gates(plain),
        "waived": plain.get("waived") or {},
        "attested": plain.get("attested") or {},
        "timings": plain.get("timings") or {},
    }


def _not_as_expected(
    plain: Mapping[str, Any], claims: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Violated claims, and open claims that no cause of those explains, both by cause."""
    by_id = {claim["id"]: claim for claim in claims}
    causes = {
        cause: [by_id[claim["id"]] for claim in fallen]
        for cause, fallen in summed_up.causes(plain).items()
    }
    told = {
        claim["id"]
        for fallen in causes.values()
        if fallen[0]["verdict"] == "VIOLATED"
        for claim in fallen
    }
    violated = [claim for claim in claims if claim["verdict"] == "VIOLATED"]
    violated.sort(key=lambda claim: not claim.get("opens"))  # what policy closes and is open first
    open_ = [claim for claim in claims if summed_up.word(claim) in OPEN and claim["id"] not in told]
    return {"violated": by_cause(violated, causes), "open": by_cause(open_, causes)}


def _tables(plain: Mapping[str, Any], claims: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Claims by area, by direction of the path and by Windows build."""
    areas: dict[str, Counter[str]] = {}
    for claim in claims:
        areas.setdefault(claim["area"], Counter())[summed_up.word(claim)] += 1
    builds = sorted(
        {build for claim in claims for decision in _decisions(claim) for build in decision.about}
    )
    return {
        "counts": summed_up.counts(claims),
        "areas": areas,
        "matrix": plain["matrix"],
        "columns": [LINUX, *builds] if builds else [],
        "table": {claim["id"]: _cells(claim) for claim in claims},
    }


def _charts(plain: Mapping[str, Any], claims: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The drawings of how long policies took, and new connections after a disturbance."""
    effects: Mapping[str, Any] = plain["statistics"].get("policy_effect") or {}
    return {
        "effects": [effect_chart(what, figures) for what, figures in effects.items()],
        "recovery": recovery_chart(_recoveries(claims)),
    }


def _each_claim(plain: Mapping[str, Any], claims: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """All claims with their rows: those that are shown, and those that FOLDED puts away."""
    tests = {test["test"]: test for test in plain.get("tests") or ()}
    by_word: dict[str, list[Mapping[str, Any]]] = {}
    for claim in claims:
        by_word.setdefault(summed_up.word(claim), []).append(claim)
    return {
        "claims": claims,
        "shown": [claim for claim in claims if summed_up.word(claim) not in FOLDED],
        "folded": {told: by_word[word] for word, told in FOLDED.items() if word in by_word},
        "parts": {claim["id"]: parts(claim, tests) for claim in claims},
        "run_again": functools.partial(run_again, tests=tests, command=plain["run"]["command"]),
    }


def _the_cluster(plain: Mapping[str, Any]) -> dict[str, Any]:
    """What was found out about the cluster, its nodes and what ran there."""
    facts = plain.get("facts") or {}
    nodes = facts.get("nodes") or []
    return {
        "facts": _facts(facts),
        "nodes": nodes,
        "kbs": _kbs(nodes),
        "differences": _differences(nodes),
        "installed": plain.get("installed") or NOT_READ,
        "covered": plain.get("covered"),  # None: the report does not tell
        "images": plain.get("images") or [],
    }


def write(
    plain: Mapping[str, Any],
    path: Path,
    *,
    difference: Sequence[str] = (),
    folder: Path | None = None,
) -> None:
    """Write the page of a report, without what looks like a secret or a path of a machine, since pages are handed on.

    ``folder``: the run's directory, where it is there.
    """
    failures = bundles(plain, folder) if folder else {}
    linked = folder is not None and folder.resolve() == path.resolve().parent
    page = render(plain, difference=difference, failures=failures, linked=linked)
    path.write_text(
        scrubbed(page, private(plain["run"], (Path.home(), Path.cwd()))), encoding="utf-8"
    )


@functools.cache
def _template() -> Any:
    import jinja2  # 85 ms: only where a page is written

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda told: printable(told) if type(told) is str else told,
    )
    environment.globals |= {
        "word": summed_up.word,
        "told_of": _told_of,
        "first_line": _first_line,
        "broken_on": _broken_on,
        "rest": _rest,
        "shareable": shareable,
        "directions": DIRECTIONS,
        "SHOWN": SHOWN,
        "BELOW": BELOW,
        "BESIDE": BESIDE,
        "style": (FOLDER / "page.css").read_text(encoding="utf-8"),
        "script": (FOLDER / "page.js").read_text(encoding="utf-8"),
    }
    return environment.get_template("page.html.j2")


def headline(plain: Mapping[str, Any]) -> tuple[str, str]:
    """The page's first line and its tone: ``good``, ``bad`` or ``warn``."""
    (text, tone), cause = _answer(plain), str(plain["run"].get("exit_cause") or "")
    told = cause.startswith("--require") or not (cause or text.startswith("Nothing violated"))
    if tone == "bad" or told or not plain["run"]["exit_code"]:
        return text, tone
    return f"{text}; and yet exit code {plain['run']['exit_code']}: {meaning(plain)}", "bad"


def _answer(plain: Mapping[str, Any]) -> tuple[str, str]:
    counts = summed_up.counts(plain["claims"])
    accepted = plain.get("waived") or {}
    waived = [
        claim["id"]
        for claim in plain["claims"]
        if claim["verdict"] == "VIOLATED" and claim["id"] in accepted
    ]
    violated = counts.get("VIOLATED", 0) - len(waived)
    if plain["run"].get("cut_short"):
        before = f"{_claims_are(violated)} violated, and the run was cut" if violated else "Cut"
        text = f"{before} short: it says nothing about what it did not reach"
        return text, "bad" if violated else "warn"
    if gates := plain.get("gates"):
        return _of_gates(plain, gates)
    excepted = f"violated, and waived: {', '.join(waived)}"
    if violated:
        text = _counted_with_cause(plain, "VIOLATED", violated, waived)
        return f"{text}; {excepted}" if waived else text, "bad"
    if undecided := counts.get("INCONCLUSIVE", 0):
        text = _counted_with_cause(plain, "INCONCLUSIVE", undecided, waived)
        return f"{text}; {excepted}" if waived else text, "warn"
    if waived:
        return f"{_claims_are(len(waived))} {excepted}", "warn"
    told, missing = _of_nothing_violated(plain["claims"], counts)
    return "; ".join(["Nothing violated", *told]), "warn" if missing else "good"


def _claims_are(number: int) -> str:
    return counted(number, "claim is", "claims are")


def _counted_with_cause(
    plain: Mapping[str, Any], verdict: str, number: int, waived: Sequence[str]
) -> str:
    """``2 claims are violated, for one reason``; claims of ``waived`` are not counted."""
    ids = [
        {claim["id"] for claim in claims if claim["verdict"] == verdict}.difference(waived)
        for claims in summed_up.causes(plain).values()
    ]
    reason = ", for one reason" if number in map(len, ids) else ""
    return f"{_claims_are(number)} {verdict.lower()}{reason}"


def _of_nothing_violated(
    claims: Sequence[Mapping[str, Any]], counts: Mapping[str, int]
) -> tuple[list[str], bool]:
    """How far that goes, and whether somebody has to look: what this cluster cannot show is no gap of a run."""
    unseen = sum(
        summed_up.word(claim) == "NOT_RUN" and str(claim["reason"]).startswith(UNSEEN)
        for claim in claims
    )
    undecided = counts.get("NOT_RUN", 0) + counts.get(summed_up.UNSELECTED, 0) - unseen
    gaps = {word: counts[word] for word in ("UNMET", "ADVISED", "LIFTED") if word in counts}
    gaps |= {"not decided": undecided} if undecided else {}
    rest = {
        "that cannot be seen here": unseen,
        "without a test yet": counts.get(summed_up.UNTESTED, 0),
        "for a person": counts.get(summed_up.HAND, 0),
    }
    decided = sum(counts.get(word, 0) for word in ("CONFIRMED", summed_up.THERE, "NOT_OBSERVED"))
    told = [f"{number} {what}" for what, number in (gaps | rest).items() if number]
    return [f"{_claims_are(decided)} as documented", *told], bool(gaps) or not decided


def _of_gates(plain: Mapping[str, Any], gates: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    names = ", ".join(dict.fromkeys(gate["name"] for gate in gates))
    answers = {gate["answer"] for gate in gates}
    if "not qualified" in answers:
        return f"Not qualified: {names}", "bad"
    if "incomplete" in answers:
        return f"Incomplete: {names}", "warn"
    field = plain["run"]["evidence"] == "field"
    words = f"Qualified: {names}" if field else f"Would qualify: {names}; a lab qualifies nothing"
    waived = plain.get("waived") or {}
    excepted = any(gate["waived"] for gate in gates)
    if excepted:
        words += (
            f"; with exceptions: {', '.join(waived)} waived"
            if waived
            else "; with exceptions that are waived"
        )
    if others := summed_up.beside_gates(plain):
        return f"{words}; beyond that {', '.join(others)} violated", "bad"
    return words, "warn" if excepted else "good"


def _cluster(cluster: Mapping[str, Any]) -> str:
    """Its name, without addresses and paths of a machine, for which the report's JSON is the place."""
    told = [
        part
        for part in (cluster["label"] or cluster["how"]).split(", ")
        if "://" not in part and "/" not in part
    ]
    return ", ".join(told) or str(cluster["how"])


def _versions(facts: Mapping[str, Any]) -> list[str]:
    """What ran where: Calico, Kubernetes, how packets are carried, and the revisions of Windows with their nodes."""
    told = [("Calico", "calico_version"), ("Kubernetes", "kubernetes_version"), ("mode", "mode")]
    values = [
        f"{name} {value}" for name, key in told if (value := (facts.get(key) or {}).get("value"))
    ]
    nodes = [node["windows_build"] for node in facts.get("nodes") or () if node["os"] == "windows"]
    builds = Counter(".".join(map(str, build)) if build else "of unknown build" for build in nodes)
    return [
        *values,
        *(
            f"Windows {build} ({counted(number, 'node')})"
            for build, number in sorted(builds.items())
        ),
    ]


def _told_of(claim: Mapping[str, Any]) -> str:
    """Why a claim's verdict is what it is, where none of its rows says it."""
    told = {claim["statement"], *(result["reason"] for result in claim["results"])}
    return "" if claim["reason"] in told else str(claim["reason"] or "")


def _rest(rows: Sequence[Mapping[str, Any]]) -> str:
    """The verdicts of rows that are shown when they are asked for."""
    return ", ".join(
        f"{number} {verdict}"
        for verdict, number in Counter(part["verdict"] for part in rows).items()
    )


def by_cause(
    claims: Sequence[Mapping[str, Any]], causes: Mapping[str, Sequence[Mapping[str, Any]]]
) -> list[tuple[str, list[Mapping[str, Any]]]]:
    """Claims in their order, those of one cause together, with all that fall with them; a cause of ``""`` is none."""
    of = {claim["id"]: (cause, fallen) for cause, fallen in causes.items() for claim in fallen}
    found: dict[str, tuple[str, list[Mapping[str, Any]]]] = {}
    for claim in claims:
        cause, fallen = of.get(claim["id"], ("", [claim]))
        found.setdefault(cause or claim["id"], (cause, list(fallen)))
    return list(found.values())


def _first_line(claim: Mapping[str, Any]) -> str:
    """What its first failed test says, cut where it is long, and in how many of its tests it is so."""
    line = cut(unnamed(str(claim["reason"] or "").partition("\n")[0], claim["id"]))
    alike = sum(result["verdict"] == claim["verdict"] for result in claim["results"])
    return (
        f"{line} ({alike} of {len(claim['results'])} results)"
        if len(claim["results"]) > 1 and alike
        else line
    )


def _broken_on(claim: Mapping[str, Any]) -> str:
    """Where a claim is what it is as a whole: Windows builds, and Linux; empty: it tells of none."""
    places = [place for place, verdict in _cells(claim).items() if verdict == claim["verdict"]]
    return ", ".join(place if place == LINUX else f"Windows {place}" for place in places)


def _recoveries(claims: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Claim and part to the seconds until a new connection was there after a disturbance."""
    return {
        f"{claim['id']} {result['part']}".strip(): float(seconds)
        for claim in claims
        for result in claim["results"]
        if isinstance(seconds := result["measured"].get(RECOVERY), int | float)
    }


def _decisions(claim: Mapping[str, Any]) -> Iterator[Decision]:
    for result in claim["results"]:
        for decision in result.get("decisions") or ():
            yield from_plain(Decision, decision)


def _cells(claim: Mapping[str, Any]) -> dict[str, str]:
    """Column to verdict, of a claim that was decided on some node."""
    decisions = list(_decisions(claim))
    cells = {build: str(verdict) for build, verdict in by_build(decisions).items()}
    others = [decision.verdict for decision in decisions if not decision.about]
    if others:
        cells[LINUX] = str(next(verdict for verdict in PRECEDENCE if verdict in others))
    return cells


def _differences(nodes: Sequence[Mapping[str, Any]]) -> list[tuple[str, str, list[str]]]:
    """Name, value and the Windows nodes that have it, of all that a look into nodes told of their hosts."""
    found: dict[tuple[str, str], list[str]] = {}
    for node in nodes:
        for name, value in ((node.get("differences") or {}).get("value") or {}).items():
            found.setdefault((name, value), []).append(node["name"])
    return [(name, value, names) for (name, value), names in sorted(found.items())]


def _kbs(nodes: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Where the KB numbers of Windows nodes were read, or why they are not known, to the nodes' names."""
    found: dict[str, list[str]] = {}
    for node in nodes:
        if node["os"] == "windows" and node.get("update"):
            found.setdefault(node["update"]["source"], []).append(node["name"])
    return found


def _facts(facts: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Name, value and where it was read."""
    return [
        (name.replace("_", " "), _value(entry["value"]), str(entry["source"]))
        for name, entry in facts.items()
        if isinstance(entry, dict) and set(entry) == {"value", "source"}
    ]


def _value(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "unknown" if value is None else str(value)
