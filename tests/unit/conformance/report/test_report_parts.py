# SPDX-License-Identifier: Apache-2.0
"""One verdict per claim by precedence, exit codes, the matrix, attachments, bundles, and the HTML page's errors."""

from __future__ import annotations

import itertools
import json
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from conformance.catalog import catalog
from conformance.errors import Nonconformance, ProbeBroken
from conformance.model.attempt import Attempt, Kind
from conformance.model.claim import PRECEDENCE, ClaimResult, ClaimVerdict
from conformance.model.codec import from_plain, to_plain
from conformance.model.endpoint import Addressing, Target
from conformance.model.facts import Fact, Facts
from conformance.model.observation import Observation, Verdict
from conformance.report import html, junit, terminal
from conformance.report.allure_results import executor, labels, write_surroundings
from conformance.report.attach import Attachments, slug
from conformance.report.diagnostics import Diagnostics, Failure
from conformance.report.junit import write_claims
from conformance.report.matrix import direction_matrix, render
from conformance.report.page.parts import parts
from conformance.report.run import RunReport, to_json
from conformance.verdicts.claims import TestOutcome, claim_outcomes, exit_code
from tests.plugin.stand_in_cluster import facts
from tests.unit.conformance.builders import a_workload

V = ClaimVerdict


def result(verdict: V, part: str = "", claim: str = "CONN-1", reason: str = "") -> ClaimResult:
    return ClaimResult(
        claim=claim, verdict=verdict, test=f"t::{part}", reason=reason or str(verdict), part=part
    )


def outcome(
    *results: ClaimResult, verdict: V | None = None, ran: bool = True, **more: object
) -> TestOutcome:
    return TestOutcome(
        test=f"t::{id(results)}",
        verdict=verdict or results[0].verdict,
        results=results,
        ran=ran,
        **more,  # type: ignore[arg-type]
    )


def claim(
    *tests: TestOutcome, ident: str = "CONN-1", whole: bool = True, told: Facts | None = None
) -> object:
    outcomes = claim_outcomes(catalog(), told or facts(), tests, whole=whole)
    return next(item for item in outcomes if item.claim.id == ident)


def test_what_is_installed_has_what_tells_windows_hosts_apart() -> None:
    known = facts(windows=2)
    one, other = (node.name for node in known.by_os("windows"))
    known = known.learnt("differences", one, Fact({"Culture": "en-US"}, "a look"))
    known = known.learnt("update", one, Fact("KB5044281", "a look")).learnt(
        "update", other, Fact(None, "unread")
    )
    whole = RunReport(
        run_id="r", started="s", seconds=1.0, exit_code=0, command="c", cluster={}, claims=(), tests=(), facts=known,
    )  # fmt: skip
    told = to_json(whole)["installed"]
    assert told["hosts"] == {one: {"KB": "KB5044281", "Culture": "en-US"}}


@pytest.mark.parametrize(
    "where", [{"where": "w1 to l1"}, {"cause": "Felix does not run on w1"}, {}]
)
def test_a_part_has_its_path_below_where_the_first_line_names_nodes_and_a_long_line_is_whole_below(
    where: dict[str, str],
) -> None:
    long, path = f"CONN-1: {'word ' * 200}end", "ns/a (windows, node w1) -> 10.0.0.9:80/tcp"
    failed = {
        "verdict": "VIOLATED",
        "part": "",
        "test": "t",
        "claim": "CONN-1",
        "reason": long,
        "measured": {},
    }
    told = {"headline": long, "path": path, "lines": {"because": "it is open"}, **where}
    (part,) = parts({"results": [failed]}, {"t": {"explanation": told}})
    assert part["told"].get("path") == (path if where else None)
    assert part["first"].endswith(" ...")
    assert part["text"].endswith("word end")


ORDER = [
    "VIOLATED", "INCONCLUSIVE", "UNMET", "NOT_RUN", "LIFTED", "ADVISED", "CONFIRMED", "NOT_OBSERVED", "NOT_APPLICABLE",
]  # fmt: skip


@pytest.mark.parametrize(("worse", "better"), list(itertools.combinations(ORDER, 2)))
def test_the_worse_of_two_results_is_the_claim_s_verdict(worse: str, better: str) -> None:
    pair = [outcome(result(V(better), "a")), outcome(result(V(worse), "b"))]
    assert claim(*pair).verdict is V(worse)  # type: ignore[attr-defined]
    assert claim(*reversed(pair)).verdict is V(worse)  # type: ignore[attr-defined]


def test_the_precedence_is_the_documented_one() -> None:
    assert [str(verdict) for verdict in PRECEDENCE] == ORDER


def test_a_partial_result_names_what_was_decided_and_what_was_not() -> None:
    one = claim(
        outcome(result(V.CONFIRMED, "linux->windows pod-ip")),
        outcome(result(V.NOT_RUN, "windows->windows pod-ip", reason="it needs 2 Windows nodes")),
        outcome(result(V.NOT_APPLICABLE, "windows->linux pod-ip")),
    )
    assert (one.verdict, one.reason) == (V.NOT_RUN, "it needs 2 Windows nodes")  # type: ignore[attr-defined]
    assert one.decided == ("linux->windows pod-ip",)  # type: ignore[attr-defined]
    assert one.missing == ("windows->windows pod-ip",)  # type: ignore[attr-defined]


def test_a_claim_that_facts_exclude_needs_no_test_for_that() -> None:
    assert claim(ident="BGP-1").verdict is V.NOT_APPLICABLE  # type: ignore[attr-defined]
    assert claim(ident="BGP-1", whole=False).verdict is None  # type: ignore[attr-defined]


def test_what_no_program_decides_says_so() -> None:
    told = facts(install="manual")
    assert "no program" in claim(ident="PLAT-9", told=told).reason  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("verdicts", "status", "code"),
    [
        ([V.CONFIRMED], 0, 0),
        ([V.UNMET, V.LIFTED, V.ADVISED, V.NOT_RUN, V.NOT_OBSERVED, V.NOT_APPLICABLE], 0, 0),
        ([V.VIOLATED, V.INCONCLUSIVE], 1, 1),
        ([V.INCONCLUSIVE, V.CONFIRMED], 1, 6),
        ([V.CONFIRMED], 1, 6),
        ([V.VIOLATED], 3, 3),
        ([V.VIOLATED], 4, 4),
        ([V.VIOLATED], 2, 1),
        ([], 5, 5),
    ],
)
def test_exit_codes_follow_verdicts(verdicts: list[V], status: int, code: int) -> None:
    assert exit_code([outcome(result(verdict)) for verdict in verdicts], status) == code


@pytest.mark.parametrize(
    ("verdicts", "code"), [([V.CONFIRMED, V.INCONCLUSIVE], 7), ([V.VIOLATED], 1), ([], 7)]
)
def test_a_machine_that_lacks_something_is_7_unless_a_claim_is_violated(
    verdicts: list[V], code: int
) -> None:
    assert exit_code([outcome(result(verdict)) for verdict in verdicts], 7) == code


def test_an_interruption_by_the_user_stays_one() -> None:
    assert exit_code([outcome(result(V.VIOLATED))], 2, by_user=True) == 2


def test_planned_tests_that_vanished_are_never_green() -> None:
    assert exit_code([outcome(result(V.CONFIRMED)), outcome(result(V.NOT_RUN), ran=False)], 0) == 2


def test_windows_tests_that_only_read_need_no_pod() -> None:
    assert exit_code([outcome(result(V.CONFIRMED), needs_windows=True)], 0) == 0
    assert exit_code([outcome(result(V.CONFIRMED), needs_windows=True, touched=("linux",))], 0) == 7
    assert (
        exit_code(
            [outcome(result(V.CONFIRMED), needs_windows=True, touched=("linux", "windows"))], 0
        )
        == 0
    )


def test_a_cell_of_the_matrix_is_its_worst_result() -> None:
    matrix = direction_matrix(
        [
            result(V.CONFIRMED, "linux->windows pod-ip"),
            result(V.VIOLATED, "linux->windows pod-ip"),
            result(V.CONFIRMED, "windows->linux cluster-ip"),
            result(V.CONFIRMED, "no direction"),
        ]
    )
    assert matrix == {
        "pod-ip": {"linux->windows": V.VIOLATED},
        "cluster-ip": {"windows->linux": V.CONFIRMED},
    }
    assert render(matrix) == [
        "client -> server  L->L  L->W      W->L       W->W",
        "pod-ip            -     VIOLATED  -          -",
        "cluster-ip        -     -         CONFIRMED  -",
    ]
    assert render({}) == []


# --- shapes as JSON ---------------------------------------------------------------------------------------------------


def observation() -> Observation:
    client = a_workload("client", "windows")
    target = Target(
        host="10.0.0.1", port=80, protocol="tcp", path=Addressing.POD_IP, backends=(client,)
    )
    attempt = Attempt(source=client, kind=Kind.HTTP, give_up_after=5.0, target=target)
    return Observation(
        attempt=attempt,
        verdict=Verdict.TIMED_OUT,
        at=1.0,
        seconds=5.0,
        body=b"\x00\xff",
        answers=("a",),
    )


@pytest.mark.parametrize(
    "shape", [observation(), facts(mode=None), result(V.LIFTED), outcome(result(V.CONFIRMED))]
)
def test_shapes_survive_the_way_through_json(shape: object) -> None:
    assert from_plain(type(shape), json.loads(json.dumps(to_plain(shape)))) == shape


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"verdict": "MAYBE"}, "ClaimResult.verdict: 'MAYBE' is not one of"),
        ({"reason": 5}, "ClaimResult.reason: 5 does not fit"),
        ({"evidence": "hearsay"}, "ClaimResult.evidence: 'hearsay' does not fit"),
        ({"extra": 1}, "ClaimResult: unknown extra"),
        ({"measured": []}, "ClaimResult.measured: [] does not fit"),
        ({"measured": {"a": True}}, "ClaimResult.measured.a: True does not fit"),
    ],
)
def test_what_does_not_fit_a_shape_is_named(change: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match="ClaimResult") as caught:
        from_plain(ClaimResult, {**to_plain(result(V.CONFIRMED)), **change})
    assert words in str(caught.value)


def test_a_missing_field_is_named() -> None:
    with pytest.raises(ValueError, match=r"missing .* 'reason'"):
        from_plain(ClaimResult, {"claim": "a", "verdict": "UNMET", "test": "t"})


# --- attachments and bundles ------------------------------------------------------------------------------------------


def test_attachments_lie_in_their_test_s_folder_and_overwrite_nothing(tmp_path: Path) -> None:
    attach = Attachments(tmp_path)
    attach.enter("suites/a/test_b.py::test_c[linux->windows]")
    first, second = attach.text("events", "one"), attach.text("events", "two")
    assert first.parent == tmp_path / "suites_a_test_b.py_test_c_linux-to-windows"
    assert (first.read_text(), second.read_text()) == ("one", "two")
    assert json.loads(attach.json("table", {"a": {1}.__class__}).read_text())


@pytest.mark.parametrize(
    ("text", "name"), [("../../etc", ".._.._etc"), ("", "unnamed"), ("a b/c", "a_b_c")]
)
def test_names_of_attachments_stay_in_their_folder(text: str, name: str) -> None:
    assert slug(text) == name
    assert "/" not in slug(text)


def test_a_collector_that_breaks_hides_neither_the_failure_nor_the_others(tmp_path: Path) -> None:
    def broken(failure: Failure) -> dict[str, str]:
        raise OSError("no route to the API")

    diagnostics, attach = Diagnostics(), Attachments(tmp_path)
    diagnostics.register(broken)
    diagnostics.register(lambda failure: {"events": f"of {failure.test}"})
    failure = Failure(test="t", claims=("CONN-1",), error=Nonconformance("refused"))
    texts = [path.read_text() for path in diagnostics.collect(failure, attach)]
    assert texts == ["OSError: no route to the API", "of t"]


def test_broken_probes_keep_what_they_saw() -> None:
    assert ProbeBroken("agent died", [observation()]).observations == (observation(),)


# --- JUnit ------------------------------------------------------------------------------------------------------------


def empty_report() -> RunReport:
    return RunReport(
        run_id="r", started="2026-11-20T10:00:00Z", seconds=0.0, exit_code=0, command="pytest", cluster={}, facts=None,
        tests=(), claims=(),
    )  # fmt: skip


def test_who_ran_it_is_told_to_allure_by_the_variables_of_ci_systems() -> None:
    ours = executor(empty_report(), {})
    assert (ours["type"], ours["buildName"]) == ("local", "run r (no cluster)")
    gitlab = executor(empty_report(), {"CI_JOB_URL": "https://gitlab.example/j/1"})
    assert (gitlab["type"], gitlab["buildUrl"]) == ("gitlab", "https://gitlab.example/j/1")


def test_what_labels_say_of_a_run_is_in_every_output(tmp_path: Path) -> None:
    said = {"release": "v3.32.0-rc1", "run by": "jane"}
    told = replace(empty_report(), labels=said, cluster={"how": "lab", "label": ""})
    plain = to_json(told)
    assert plain["run"]["labels"] == said
    assert ("label: release=v3.32.0-rc1", "plain") in terminal.summary(plain, tmp_path)
    write_claims(told, tmp_path / "claims.xml")
    assert '<property name="label run by" value="jane" />' in (tmp_path / "claims.xml").read_text()
    write_surroundings(told, tmp_path / "allure")
    assert "label_run_by=jane" in (tmp_path / "allure" / "environment.properties").read_text()


def test_what_a_cluster_wrote_is_one_plain_line_of_allure_s_surroundings(tmp_path: Path) -> None:
    told = replace(empty_report(), notes=("log: \x1b]0;owned\x07\u202e\r\nnote_2=b\\c",))
    write_surroundings(told, tmp_path)
    text = (tmp_path / "environment.properties").read_text(encoding="utf-8")
    (note,) = [line for line in text.splitlines() if line.startswith("note_1=")]
    assert note == r"note_1=log: \\x1b]0;owned\\x07\\u202e note_2=b\\c"


def test_a_test_of_no_claim_has_an_area_in_allure_too() -> None:
    """What has none would stand beside the areas under its own name."""
    assert labels([]) == [("epic", "The suite itself")]


def test_junit_without_a_suite_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "junit.xml"
    path.write_text("<testsuites/>")
    with pytest.raises(ValueError, match="no <testsuite>"):
        junit.mend(path, empty_report())


# --- HTML -------------------------------------------------------------------------------------------------------------


def test_without_allure_there_is_one_line_that_says_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(html, "ROOT", tmp_path)
    monkeypatch.chdir(tmp_path)
    assert html.main([str(tmp_path)]) == 7
    said = capsys.readouterr().err.strip()
    assert "npm install --no-save allure@3" in said
    assert "\n" not in said


def stand_in_allure(folder: Path, body: str) -> list[str]:
    script = folder / "allure"
    script.write_text(f"#!/bin/sh\n{body}\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return [str(script)]


def a_run(folder: Path) -> Path:
    (folder / "run" / "allure").mkdir(parents=True)
    (folder / "run" / "allure" / "x-result.json").write_text("{}")
    return folder / "run"


def test_the_page_is_put_beside_the_run_s_other_files(tmp_path: Path) -> None:
    call = stand_in_allure(tmp_path, 'mkdir html && cp "$4" html/index.html')
    page = html.render(a_run(tmp_path), call)
    assert page == tmp_path / "run" / "allure.html"
    options = json.loads(page.read_text())["plugins"]["awesome"]["options"]
    assert options == {"singleFile": True, "groupBy": ["epic", "feature", "story"]}


def test_the_page_of_allure_asks_nobody_and_its_script_waits_for_its_data(tmp_path: Path) -> None:
    script, asks = (
        '<script   src="data:text/javascript,1"></script>',
        '<script async src="https://x.example/1"></script>',
    )
    (tmp_path / "page").write_text(f"<html><head><title>t</title></head>{script}{asks}<head>")
    call = stand_in_allure(tmp_path, f"mkdir html && cp {tmp_path}/page html/index.html")
    page = html.render(a_run(tmp_path), call).read_text()
    policy = (
        "default-src 'unsafe-inline' 'unsafe-eval' data: blob:"  # no host, and no scheme of one
    )
    assert page.startswith(
        f'<html><head><meta http-equiv="Content-Security-Policy" content="{policy}"><title>'
    )
    assert page.count(policy) == 1
    assert '<script defer   src="data:text/javascript,1"></script>' in page


def test_the_page_of_allure_names_no_address_of_an_api_and_no_path_of_a_machine(
    tmp_path: Path,
) -> None:
    run, address = a_run(tmp_path / "jane"), "https://api.internal.example:6443"
    told = {
        "command": "pytest --kubeconfig=/srv/lane.yaml",
        "evidence": "lab",
        "cluster": {"label": address},
    }
    (run / "conformance.json").write_text(json.dumps({"run": told}))
    (run / "allure" / "environment.properties").write_text(
        f"cluster={address}, kubeconfig /srv/lane.yaml, in {run}\n"
    )
    call = stand_in_allure(
        tmp_path, 'mkdir html && cat "$2"/*.properties "$2"/*.json >html/index.html'
    )
    assert (
        html.render(run, call).read_text()
        == f"cluster=(removed), kubeconfig (here)/lane.yaml, in (here)/{run.name}\n{{}}"
    )


@pytest.mark.parametrize("body", ["echo boom >&2; exit 1", "exit 0"])
def test_an_allure_that_fails_or_writes_nothing_is_reported(tmp_path: Path, body: str) -> None:
    with pytest.raises(html.CannotRender, match="Allure failed"):
        html.render(a_run(tmp_path), stand_in_allure(tmp_path, body))


def test_a_run_without_results_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(html.CannotRender, match="holds no Allure results") as caught:
        html.render(tmp_path, ["true"])
    assert caught.value.code == 4
