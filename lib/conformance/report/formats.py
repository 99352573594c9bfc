# SPDX-License-Identifier: Apache-2.0
"""Summaries and gates of a report as JSON for programs, and gates as Markdown."""

from collections.abc import Mapping, Sequence
from typing import Any

from conformance.model.markdown import cell
from conformance.report import summed_up
from conformance.report.page import answer
from conformance.report.terminal import BESIDE, meaning

OF_CLAIM = ("id", "verdict", "statement", "reason", "remedy")


def summary(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return the summary of a report: the answer, causes, failed and undecided claims, gates,
    notes."""
    run = plain["run"]
    fallen = [claim for claim in plain["claims"] if claim["verdict"] in summed_up.FALLEN]
    return {
        "run": run["id"],
        "started": run["started"],
        "evidence": run["evidence"],
        "headline": answer.headline(plain)[0],
        "reach": answer.reach(plain),
        "exit_code": run["exit_code"],
        "meaning": meaning(plain),
        "counts": summed_up.counts(plain["claims"]),
        "causes": [
            {"cause": cause, "claims": [claim["id"] for claim in claims]}
            for cause, claims in summed_up.causes(plain).items()
        ],
        "fallen": [{name: claim[name] for name in OF_CLAIM} for claim in fallen],
        **gates(plain),
        "notes": list(run.get("notes") or ()),
    }


def gates(plain: Mapping[str, Any], unused: Sequence[str] = ()) -> dict[str, Any]:
    """Return the gates of a report in JSON; ``unused``: waivers that accepted nothing."""
    fields = ("name", "answer", "headlines", "obstacles", "waived")
    return {
        "gates": [{name: gate[name] for name in fields} for gate in summed_up.gates(plain)],
        "beside": summed_up.beside_gates(plain),
        **({"unused_waivers": list(unused)} if unused else {}),
    }


def gates_as_markdown(plain: Mapping[str, Any], unused: Sequence[str] = ()) -> list[str]:
    """Return a table of the gates, and lists of the obstacles."""
    found = gates(plain, unused)
    lines = ["| gate | answer |", "| --- | --- |"]
    lines += [
        f"| {cell(headline)} | {cell(gate['answer'])} |"
        for gate in found["gates"]
        for headline in gate["headlines"]
    ]
    for gate in found["gates"]:
        title = ["", f"**{cell(gate['name'])}**", ""] if gate["obstacles"] else []
        lines += [*title, *(f"- {cell(obstacle)}" for obstacle in gate["obstacles"])]
    beside = [f"{BESIDE}: {', '.join(found['beside'])}"] if found["beside"] else []
    notes = [*beside, *(f"waiver not used: {waiver}" for waiver in unused)]
    return [*lines, *(line for note in notes for line in ("", cell(note)))]
