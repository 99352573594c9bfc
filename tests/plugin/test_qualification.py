# SPDX-License-Identifier: Apache-2.0
"""Gates, waivers, attestations and baselines of whole runs: what they print, what the report keeps, the exit code."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from conformance.qualify.sets import sets
from tests.plugin.junit_statuses import statuses

from .conftest import Project

GOOD = """
@verifies("DEMO-5")
def test_good(record):
    pass
"""
BAD = """
@verifies("DEMO-5")
def test_bad():
    raise Nonconformance("expected blocked, observed connected")
"""
WAIVER = """
- claim: DEMO-5
  verdicts: [VIOLATED]
  reason: known on this lane
  link: https://x.example/1
  owner: jane
  expires: 2099-12-31
"""


def test_a_gate_names_what_stands_in_the_way_and_ends_with_one_where_something_is_decided(
    project: Project,
) -> None:
    project.suite(BAD)
    run = project.run("--require=policy")
    assert run.code == 1, run.out
    assert "gate: policy on Windows 20348 (mode vxlan): not qualified" in run.out
    assert "      DEMO-5 VIOLATED: expected blocked, observed connected" in run.out
    assert run.report["gates"][0]["answer"] == "not qualified"


def test_a_gate_of_which_much_was_not_run_is_incomplete_and_ends_with_six(project: Project) -> None:
    project.suite(
        "@verifies('ENC-3')\ndef test_open():\n    raise MissingCapability('no such thing', 'get one')"
    )
    run = project.run("--require=vxlan")
    assert run.code == 6, run.out
    assert "incomplete" in run.report["gates"][0]["headline"]
    assert "(exit code 6: --require: vxlan not fulfilled)" in run.out


UNVERIFIED = "the certificate of https://10.0.0.1:6443 is not verified (insecure-skip-tls-verify)"
LOOSE = json.dumps({"unverified": UNVERIFIED})


def test_an_unverified_connection_stands_in_the_header_and_in_the_report(project: Project) -> None:
    project.suite(GOOD)
    run = project.run(STAND_IN=LOOSE)
    assert run.code == 0, run.out
    lines = run.out.splitlines()
    cluster = next(number for number, line in enumerate(lines) if line.startswith("cluster: "))
    assert lines[cluster + 1] == f"note: {UNVERIFIED}"
    assert lines.count(f"note: {UNVERIFIED}") == 1, "the header has it; the end does not repeat it"
    assert run.report["run"]["unverified"] == UNVERIFIED
    assert UNVERIFIED in run.report["run"]["notes"]
    for quiet in ("-q", "--no-header"):
        assert project.run(quiet, STAND_IN=LOOSE).out.count(f"note: {UNVERIFIED}") == 1
    verified = project.run()
    assert "unverified" not in verified.report["run"]


def test_no_gate_is_begun_over_an_unverified_connection_unless_that_is_accepted(
    project: Project,
) -> None:
    project.suite(GOOD)
    run = project.run("--require=policy", STAND_IN=LOOSE)
    assert run.code == 4, run.out
    assert (
        f"ERROR: --require: {UNVERIFIED}, and a gate depends on the API server's answers: "
        "add --accept-unverified-tls, or name the certificate-authority in the kubeconfig"
    ) in run.out
    assert "inspect" not in (project.path / "cluster.log").read_text()
    accepted = project.run("--require=policy", "--accept-unverified-tls", STAND_IN=LOOSE)
    (gate,) = accepted.report["gates"]
    assert ", over an unverified connection" in gate["headline"]
    assert not any(" unverified: " in line for line in gate["obstacles"])


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        (
            "--require=all",
            "--require all: there is no set 'all'; the sets are core, policy, vxlan, limitations",
        ),
        (
            "--require=core,,policy",
            "--require core,,policy: a name is missing; the sets are core, policy",
        ),
        ("--require=", "--require= has no value: leave the option out, or give it a value"),
        *(
            (f"{name}=", f"{name}= has no value: leave the option out, or give it a value")
            for name in (
                "--baseline",
                "--kubeconfig",
                "--nodes",
                "--node-selector",
                "--timings",
                "--lab-profile",
            )
        ),
        ("--fail-on=RED", "--fail-on RED: expected verdicts from CONFIRMED"),
        ("--waivers=none.yaml", "waivers none.yaml: cannot be read: No such file or directory"),
        ("--attest=none.yaml", "attestations none.yaml: cannot be read: No such file or directory"),
        ("--baseline=none.json", "report none.json does not exist"),
    ],
)
def test_what_cannot_be_used_is_one_line_and_exit_code_four_before_anything_is_touched(
    project: Project, option: str, expected: str
) -> None:
    project.suite(GOOD)
    run = project.run(option)
    assert run.code == 4, run.out
    assert expected in run.out
    assert not (project.path / "cluster.log").exists(), "the cluster was touched"


def every_part_of(name: str) -> str:
    """A suite with a test of everything that a set demands."""
    parts = [(demand.claim, part) for demand in sets()[name].demands for part in demand.parts]
    return "\n".join(
        f"@verifies({claim!r}{f', part={part!r}' if part else ''})\ndef test_{number}(): pass"
        for number, (claim, part) in enumerate(parts)
    )


@pytest.mark.parametrize("options", [["-n", "0"], ["-n", "2"], ["--plan"]], ids=" ".join)
def test_what_a_selection_leaves_out_of_a_gate_is_said_before_the_first_test(
    project: Project, options: list[str]
) -> None:
    project.suite(every_part_of("vxlan") + GOOD)
    said = "note: --require vxlan cannot be complete, not selected: "
    whole = project.run(*options, "--require=vxlan")
    assert "cannot be complete" not in whole.out
    for selection in (
        ["-k", "test_0"],
        ["--claim=DEMO-5"],
        ["--deselect", "suites/test_it.py::test_2"],
    ):
        run = project.run(*options, "-v", "--require=vxlan", *selection)
        before = run.out if "--plan" in options else run.out.partition("%]")[0]
        (line,) = [line for line in before.splitlines() if line.startswith(said)]
        left_out = (
            [each["headline"] for each in run.report["gates"]]
            if run.folder and "--plan" not in options
            else []
        )
        assert all("incomplete" in headline for headline in left_out)
        claims = line.removeprefix(said).split(", ")
        assert len(claims) == len(set(claims)) >= 1
    assert claims == [sets()["vxlan"].demands[0].claim], "a part of it is not selected"
    assert run.out.count(said) == 1


def test_a_run_that_goes_on_from_an_earlier_one_says_nothing_of_what_it_need_not_select(
    project: Project,
) -> None:
    project.suite(
        every_part_of("vxlan")
        + "\n@verifies('CONN-1')\ndef test_broken(): raise ProbeBroken('died')"
    )
    lane = ("--kubeconfig=lane", "--allow-cluster-disruptive")
    first = project.run(*lane, STAND_IN='{"uid": "u-1"}')
    assert first.folder
    again = project.run(
        *lane, f"--rerun-of={first.folder}", "--require=vxlan", STAND_IN='{"uid": "u-1"}'
    )
    assert again.code == 6, again.out
    assert "cannot be complete" not in again.out
    assert "gate: vxlan on Windows 20348 (mode vxlan): would qualify" in again.out


def test_what_is_violated_and_in_no_required_set_stands_beside_the_gate(project: Project) -> None:
    project.suite(every_part_of("vxlan") + BAD)
    run = project.run("--require=vxlan")
    assert run.code == 1
    lines = run.out.splitlines()
    place = next(
        number
        for number, line in enumerate(lines)
        if line.startswith("gate: vxlan on Windows 20348")
    )
    assert lines[place + 1] == "gate: also VIOLATED, but in no required set: DEMO-5"
    assert run.folder
    page = (run.folder / "report.html").read_text()
    assert 'also VIOLATED, but in no required set: <a href="#DEMO-5">DEMO-5</a>' in page


def test_an_expired_waiver_ends_the_run_before_it_begins(project: Project) -> None:
    project.suite(BAD)
    (project.path / "waivers.yaml").write_text(WAIVER.replace("2099", "2020"))
    run = project.run("--waivers=waivers.yaml")
    assert run.code == 4, run.out
    assert "entry 1 (DEMO-5): the waiver expired on 2020-12-31" in run.out


def test_a_waived_violation_does_not_count_and_is_shown_as_waived_not_as_green(
    project: Project,
) -> None:
    project.suite(BAD)
    (project.path / "waivers.yaml").write_text(WAIVER)
    run = project.run("--waivers=waivers.yaml")
    assert run.code == 0, run.out
    assert run.verdict("DEMO-5") == "VIOLATED"
    assert (
        "waived: DEMO-5: DEMO-5 VIOLATED, waived by jane until 2099-12-31: known on this lane"
        in run.out
    )
    assert list(run.report["waived"]) == ["DEMO-5"]
    assert "(exit code 0: nothing violated except what is waived: DEMO-5)" in run.out


def test_junit_counts_no_failure_that_a_waiver_accepts_and_allure_says_who_waived_it(
    project: Project,
) -> None:
    """CI systems count failures by themselves: an accepted exception is not to fail the job that exit code 0 passes."""
    project.suite(BAD + BAD.replace("DEMO-5", "DEMO-6").replace("test_bad", "test_other"))
    (project.path / "waivers.yaml").write_text(WAIVER)
    run = project.run("--waivers=waivers.yaml")
    assert run.folder is not None
    said = statuses(run.folder / "junit.xml")
    assert said == {
        "suites/test_it.py::test_bad": "skipped",
        "suites/test_it.py::test_other": "failure",
    }
    assert (
        "(waived: DEMO-5 VIOLATED, waived by jane until 2099-12-31"
        in (run.folder / "junit.xml").read_text()
    )
    results = [
        json.loads(path.read_text()) for path in (run.folder / "allure").glob("*-result.json")
    ]
    told = {
        item["name"][:6]: {"name": "tag", "value": "waived"} in item["labels"]
        and "Waived: " in item["description"]
        for item in results
        if item["status"] == "failed"
    }
    assert told == {"DEMO-5": True, "DEMO-6": False}


def test_a_waiver_hides_no_other_violation(project: Project) -> None:
    project.suite(BAD + BAD.replace("DEMO-5", "DEMO-6").replace("test_bad", "test_other"))
    (project.path / "waivers.yaml").write_text(WAIVER)
    assert project.run("--waivers=waivers.yaml").code == 1


def test_a_waiver_that_is_not_needed_any_more_is_one_line(project: Project) -> None:
    project.suite(
        "@verifies('ENC-3')\ndef test_open():\n    raise MissingCapability('no such thing', 'get one')"
    )
    (project.path / "waivers.yaml").write_text(WAIVER)
    run = project.run("--waivers=waivers.yaml")
    assert "note: waiver not used: DEMO-5 VIOLATED, waived by jane" in run.out


def test_fail_on_makes_an_unmet_requirement_count(project: Project) -> None:
    project.suite("@verifies('PLAT-6')\ndef test_unmet():\n    raise Unmet('an old build')")
    assert project.run().code == 0
    assert project.run("--fail-on=unmet,lifted").code == 1


def test_an_attestation_answers_a_claim_that_no_program_can_decide(project: Project) -> None:
    project.suite(BAD)
    (project.path / "attest.yaml").write_text(
        "- {claim: PLAT-9, answer: CONFIRMED, who: jane, when: 2026-01-02, evidence: ticket 4711}"
    )
    run = project.run("--attest=attest.yaml")
    assert run.verdict("PLAT-9") == "CONFIRMED"
    assert run.claim("PLAT-9")["reason"] == "attested by jane on 2026-01-02: ticket 4711"


def test_an_attestation_that_a_claim_is_violated_ends_with_one_unless_it_is_waived(
    project: Project,
) -> None:
    project.suite(GOOD)
    (project.path / "attest.yaml").write_text(
        "- {claim: PLAT-9, answer: VIOLATED, who: jane, when: 2026-01-02, evidence: ticket 4711}"
    )
    assert project.run("--attest=attest.yaml").code == 1
    (project.path / "waivers.yaml").write_text(WAIVER.replace("DEMO-5", "PLAT-9"))
    assert project.run("--attest=attest.yaml", "--waivers=waivers.yaml").code == 0


ON_BOTH_BUILDS = """
from conformance.model.decision import Decision
from conformance.model.verdict import ClaimVerdict

def seen(verdict, build):
    return Decision(source="", target=f"node-{build}", builds=(build,), about=(build,), verdict=ClaimVerdict(verdict),
                reason=f"{verdict} on {build}", halves=("behaviour",))
"""


def test_a_waived_violation_hides_no_error_on_another_build(project: Project) -> None:
    project.suite(
        ON_BOTH_BUILDS
        + "@verifies('DEMO-5')\ndef test_it(record):\n"
        + "    record.decided(seen('INCONCLUSIVE', '17763'), seen('VIOLATED', '20348'))\n"
        + "    raise Nonconformance('expected blocked, observed connected')\n"
    )
    (project.path / "waivers.yaml").write_text(WAIVER)
    run = project.run("--waivers=waivers.yaml")
    assert run.verdict("DEMO-5") == "VIOLATED"
    assert run.code == 6, run.out


def test_fail_on_counts_a_limitation_that_is_lifted_on_one_build_only(project: Project) -> None:
    project.suite(
        ON_BOTH_BUILDS
        + "@verifies('RST-1')\ndef test_it(record):\n"
        + "    record.decided(seen('LIFTED', '17763'), seen('CONFIRMED', '20348'))\n"
    )
    assert project.run().code == 0
    assert project.run("--fail-on=lifted").code == 1


def test_a_run_that_is_worse_than_its_baseline_ends_with_one_and_says_in_what(
    project: Project, tmp_path: Path
) -> None:
    project.suite("@verifies('ENC-3')\ndef test_it():\n    raise Unmet('an IPIP pool')")
    first = project.run()
    assert first.code == 0
    assert first.folder is not None
    baseline = tmp_path / "baseline.json"
    shutil.copy(first.folder / "conformance.json", baseline)
    plain = json.loads(baseline.read_text())
    for claim in plain["claims"]:
        if claim["id"] == "ENC-3":
            claim["verdict"] = "CONFIRMED"
    baseline.write_text(json.dumps(plain))
    run = project.run(f"--baseline={baseline}")
    assert run.code == 1, run.out
    assert "Worse (1)" in run.out
    assert "  ENC-3: CONFIRMED -> UNMET (an IPIP pool)" in run.out
    assert "(exit code 1: --baseline: ENC-3 became worse)" in run.out
    assert run.report["run"]["exit_cause"] == "--baseline: ENC-3 became worse"


def test_a_waiver_covers_what_is_worse_than_the_baseline(project: Project) -> None:
    project.suite(GOOD)
    first = project.run()
    assert first.folder is not None
    baseline = shutil.copy(first.folder / "conformance.json", project.path / "baseline.json")
    project.suite(BAD)
    (project.path / "waivers.yaml").write_text(WAIVER)
    run = project.run(f"--baseline={baseline}", "--waivers=waivers.yaml")
    assert run.code == 0, run.out
    assert "Worse, waived (" in run.out


def test_the_report_says_which_suite_made_it_and_which_patience_it_had(project: Project) -> None:
    project.suite(BAD)
    (project.path / "t.yaml").write_text("windows:\n  hold: 7 s\n")
    report = project.run("--timings=t.yaml").report
    assert report["timings"]["windows.hold"] == "7 s instead of 5 s"
    assert len(report["suite"]["catalog"]) == 64
    assert report["suite"]["version"]
    assert len(report["suite"]["sets"]) == 64


def test_a_run_that_ends_before_its_tests_are_known_says_that_it_was_cut_short(
    project: Project,
) -> None:
    project.suite("raise KeyboardInterrupt")
    run = project.run("--require=policy")
    assert run.code == 2, run.out
    assert run.report["run"]["cut_short"] == "the run ended before its tests were known"
    assert {gate["answer"] for gate in run.report["gates"]} == {"incomplete"}
