# SPDX-License-Identifier: Apache-2.0
"""Tests of the selection, of the tests that may run, and of the cases in which the plugin does
nothing."""

from __future__ import annotations

import json
import re

import pytest

from conformance.catalog import catalog
from conformance.errors import UsageProblem
from conformance.run.choice import choose

from .conftest import Project
from .small_suite import SUITE


@pytest.fixture
def project(project: Project) -> Project:
    project.suite(SUITE)
    return project


def ran(project: Project, *arguments: str, **told: object) -> dict[str, str]:
    run = project.run(*arguments, STAND_IN=json.dumps(told))
    assert run.folder, run.out
    return {test["test"].rpartition("::test_")[2]: test["verdict"] for test in run.report["tests"]}


@pytest.mark.parametrize(
    ("arguments", "selected"),
    [
        (["-k", "vxlan"], {"overlay", "modes", "vni"}),
        (["-k", "dns"], {"names"}),
        (["-k", "vxlan and not encapsulation"], {"overlay", "vni"}),
        (["-k", "vxlan and not disruptive"], {"overlay", "modes"}),
        (["-m", "disruptive"], {"felix", "vni"}),
        (["--claim", "CONN-6", "--claim", "VXLAN-1"], {"overlay", "names"}),
        (["--smoke"], {"agents"}),
        ([], {"overlay", "names", "modes", "felix", "vni", "agents"}),
    ],
)
def test_words_claims_and_smoke_select(
    project: Project, arguments: list[str], selected: set[str]
) -> None:
    assert set(ran(project, *arguments)) == selected


def test_a_word_that_is_a_subject_selects_it_and_nothing_by_the_accident_of_a_name(
    project: Project,
) -> None:
    project.suite(
        '@verifies("CONN-1")\n@about("udp")\ndef test_dns_and_vxlan(): pass\n',
        name="test_policy.py",
    )
    assert set(ran(project, "-k", "dns")) == {"names"}
    assert set(ran(project, "-k", "udp")) == {"dns_and_vxlan"}
    assert set(ran(project, "-k", "dns_and")) == {
        "dns_and_vxlan"
    }  # no subject: matched in names, as pytest does
    assert set(ran(project, "-k", "not udp and not vxlan and not dns")) == {"felix", "agents"}


def test_an_id_of_a_claim_is_a_whole_word(project: Project) -> None:
    project.suite('@verifies("VXLAN-10")\ndef test_procedure(): pass\n', name="test_procedure.py")
    assert set(ran(project, "-k", "VXLAN-1")) == {"overlay"}
    assert set(ran(project, "-k", "vxlan-10 or conn-6")) == {"procedure", "names"}
    assert set(ran(project, "-k", "vxlan and not VXLAN-1")) == {"modes", "vni", "procedure"}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("calicoctl", "no test exists yet for calicoctl: XIPAM-4"),
        (
            "dns and performance",
            "no test exists yet for performance: PERF-1, PERF-2",
        ),
        (
            "BGP-1 or XVX-2",
            "for BGP-1: BGP-1; no test exists yet for XVX-2: XVX-2",
        ),
    ],
)
def test_words_whose_claims_have_no_test_yet_say_so(
    project: Project, words: str, told: str
) -> None:
    run = project.run("-k", words)
    assert run.code == 5
    assert f"-k {words!r} selects no test: no test exists yet" in run.out
    assert told in run.out
    assert not (project.path / "cluster.log").exists()


def test_a_word_without_tests_leaves_others_their_tests(project: Project) -> None:
    assert set(ran(project, "-k", "dns or performance")) == {"names"}


@pytest.mark.parametrize("word", ["cluserip", "VXLAN-99", "dns and cluserip"])
def test_words_that_select_nothing_are_listed_before_anything_is_started(
    project: Project, word: str
) -> None:
    run = project.run("-k", word)
    assert run.code == 5
    assert f"-k {word!r} selects no test; the known words are" in run.out
    assert "clusterip" in run.out
    assert re.search(r"^  performance  .* \(no test yet\)$", run.out, re.MULTILINE)
    assert not re.search(r"^  dns  .* \(no test yet\)$", run.out, re.MULTILINE)
    assert not (project.path / "cluster.log").exists()


@pytest.mark.parametrize(
    "words", ["overlay and kubernetes-windows", "test_overlay[kubernetes-windows]"]
)
def test_words_that_reports_print_in_brackets_select(project: Project, words: str) -> None:
    ids = '@pytest.mark.parametrize("os", ["windows"])\n'
    apis = '@pytest.mark.parametrize("api", ["kubernetes", "calico"])\n'
    project.suite(
        "import pytest\n" + ids + apis + '@verifies("VXLAN-1")\ndef test_overlay(api, os): pass\n',
        name="test_ids.py",
    )
    assert set(ran(project, "-k", words)) == {"overlay[kubernetes-windows]"}


def test_words_that_leave_the_standing_watch_out_say_so(project: Project) -> None:
    marks = "from conformance.marks import after_all_others\n"
    watch = '@after_all_others()\n@verifies("POL-1", part="all")\ndef test_watch(): pass\n'
    project.suite(marks + watch, name="test_watching.py")
    said = "leaves the standing watch out"
    left_out = project.run("-k", "overlay")
    assert left_out.code == 0, left_out.out
    assert said in left_out.out
    by_claim = project.run("--claim", "VXLAN-1")
    assert by_claim.code == 0, by_claim.out
    assert said not in by_claim.out


def test_a_cluster_that_goes_away_ends_a_run_with_its_report(project: Project) -> None:
    """Session fixtures cannot remove what they made; the run is cut short by --maxfail."""
    project.suite(
        "import pytest\nfrom conformance.errors import EnvironmentBroken\n"
        '@pytest.fixture(scope="session")\ndef made():\n    yield\n'
        '    raise EnvironmentBroken("the API server does not answer")\n'
        '@pytest.fixture\ndef own():\n    yield\n    raise EnvironmentBroken("gone")\n'
        '@verifies("VXLAN-1")\ndef test_a(made, own): pass\n'
        '@verifies("CONN-6")\ndef test_b(made, own): pass\n'
        '@verifies("ENC-3")\ndef test_c(made): pass\n'
    )
    run = project.run("--maxfail=2")
    assert run.code == 6, run.out
    assert run.verdict("VXLAN-1") == run.verdict("CONN-6") == "INCONCLUSIVE"
    assert "Traceback" not in run.out
    assert "not removed at the run's end: the API server does not answer" in run.out


def test_the_half_of_a_claim_that_is_only_read_is_not_disruptive(project: Project) -> None:
    project.suite('@verifies("VXLAN-9")\ndef test_vsids(): pass\n', name="test_read.py")
    assert set(ran(project, "--claim", "VXLAN-9", "-m", "not disruptive")) == {"vsids"}


def test_without_disruptive_tests_a_permission_to_disrupt_changes_nothing(project: Project) -> None:
    allowed = ["--kubeconfig", "x", "--allow-cluster-disruptive"]
    assert set(ran(project, "-k", "vxlan and not disruptive", *allowed)) == {"overlay", "modes"}
    assert "lock" not in (project.path / "cluster.log").read_text().split()
    ran(project, "-k", "vxlan", *allowed)
    assert "lock" in (project.path / "cluster.log").read_text().split()


def test_what_was_left_out_is_not_selected(project: Project) -> None:
    run = project.run("-k", "dns")
    assert (run.verdict("CONN-6"), run.verdict("VXLAN-1"), run.verdict("PLAT-1")) == (
        "CONFIRMED",
        None,
        None,
    )
    assert run.report["counts"] == {"CONFIRMED": 1, "not selected": len(catalog()) - 1}


def test_on_a_lab_of_its_own_disruptive_tests_run_unless_forbidden(project: Project) -> None:
    assert ran(project, "-k", "felix or vni") == {"felix": "CONFIRMED", "vni": "CONFIRMED"}
    assert ran(project, "-k", "felix or vni", "--no-disruptive") == {
        "felix": "NOT_RUN",
        "vni": "NOT_RUN",
    }


def test_on_a_named_cluster_they_need_permission(project: Project) -> None:
    named = ["-k", "felix or vni", "--kubeconfig", "x"]
    assert ran(project, *named) == {"felix": "NOT_RUN", "vni": "NOT_RUN"}
    assert ran(project, *named, "--allow-disruptive") == {"felix": "CONFIRMED", "vni": "NOT_RUN"}
    assert ran(project, *named, "--allow-cluster-disruptive") == {
        "felix": "CONFIRMED",
        "vni": "CONFIRMED",
    }


def test_what_changes_the_whole_cluster_needs_its_owners_consent(project: Project) -> None:
    allowed = ["-k", "felix or vni", "--kubeconfig", "x", "--allow-cluster-disruptive"]
    refusal = "namespace kube-system lacks a label"
    run = project.run(*allowed, STAND_IN=json.dumps({"not_opted_in": refusal}))
    assert (run.verdict("RST-3"), run.verdict("VXLAN-9")) == ("CONFIRMED", "NOT_RUN")
    assert run.claim("VXLAN-9")["reason"] == refusal
    assert f"{refusal}; not decided for that reason: VXLAN-9" in run.out


def test_the_plan_says_what_a_change_of_the_whole_cluster_costs_others(project: Project) -> None:
    told = json.dumps({"third_party_pods": {"win-1": ["ops/logs", "ops/metrics"]}})
    out = project.run("--plan", STAND_IN=told).out
    assert "each Windows node is drained, one after the other: win-0, win-1" in out
    assert (
        "node win-1: pods of DaemonSets lose their network, and are deleted and created again: "
        "ops/logs, ops/metr" in out
    )
    assert "costs others" not in project.run("--plan", "--no-disruptive", STAND_IN=told).out
    assert "costs others" not in project.run("--plan", "-k", "felix", STAND_IN=told).out


def test_policies_of_others_are_named_with_what_they_may_take_how_to_exempt_the_run_and_what_was_not_read(
    project: Project,
) -> None:
    project.suite(
        """
@verifies("CONN-3")
def test_pods(pods): pass

@verifies("DEMO-5")
def test_policy(pods, policy): pass
""",
        name="test_pods.py",
    )
    closing, opening = (
        "GlobalNetworkPolicy wide may deny ingress of this run's pods",
        "NetworkPolicy friendly may allow",
    )
    found = {
        "closing": closing,
        "opening": opening,
        "unread": "Tier: no right",
        "exempt": "exempt the label",
    }
    run = project.run("--plan", STAND_IN=json.dumps({"policies": found}))
    assert (
        f"note: foreign policies: {closing}; {opening}: paths that they decide are INCONCLUSIVE "
        "or NOT_RUN; exempt" in run.out
    )
    assert "note: foreign policies could not be read: Tier: no right" in run.out
    told = run.out.partition("Policies of other owners\n")[2]
    assert (
        f"  {closing}\n  {opening}\n  may leave undecided CONN-3, DEMO-5; remedy: exempt "
        "the label\n" in told
    )
    assert "  policies that could not be read: Tier: no right\n" in told
    only = project.run("--plan", STAND_IN=json.dumps({"policies": found | {"closing": ""}})).out
    assert "may leave undecided DEMO-5; remedy" in only, "what opens takes denials alone"
    assert "olicies of other" not in project.run("--plan").out


def test_what_changes_the_whole_cluster_is_refused_where_it_has_too_many_windows_nodes(
    project: Project,
) -> None:
    run = project.run("-k", "vni", "--max-disrupted-nodes", "1")
    assert run.claim("VXLAN-9")["reason"].endswith("there are 2, more than --max-disrupted-nodes 1")
    assert run.claim("VXLAN-9")["remedy"].startswith("allow it with --max-disrupted-nodes 2")
    assert ran(project, "-k", "vni", "--max-disrupted-nodes", "2") == {"vni": "CONFIRMED"}


def test_a_test_of_another_mode_is_not_applicable_and_of_an_unknown_one_not_run(
    project: Project,
) -> None:
    assert ran(project, "-k", "overlay", mode="bgp") == {"overlay": "NOT_APPLICABLE"}
    assert ran(project, "-k", "overlay", mode=None) == {"overlay": "NOT_RUN"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--claim", "CONN-99"], "--claim CONN-99: no such claim; did you mean CONN-"),
        (["--keep"], "use"),
        (["--cluster", "lab", "--kubeconfig", "x"], "contradict"),
        (["--cluster", "in-cluster", "--context", "x"], "contradict"),
        (
            ["--require", "core", "--require=policy"],
            "--require is given 2 times, but only one value can count: write it once, as --",
        ),
        (
            ["--context=x", "--context=x"],
            "--context is given 2 times, but only one value can count: write it once",
        ),
        (["--kubeconfig", "x", "--lab-profile", "bgp"], "--lab-profile bgp is for a lab"),
        (["--allow-disruptive", "--no-disruptive"], "contradict"),
        (["--calico-version", "latest"], "--calico-version latest: 'latest' is not a version"),
        (["--calicoctl", "missing"], "--calicoctl missing: no such file"),
        (
            ["--calicoctl", "pyproject.toml"],
            "--calicoctl pyproject.toml: this file is not executable",
        ),
        (["--report-dir", "pyproject.toml"], "pyproject.toml (--report-dir): Not a directory"),
        (["--tolerate", "a:b:c"], "--tolerate a:b:c: expected KEY"),
        (["--timings", "missing.yaml"], "--timings missing.yaml: cannot be read"),
    ],
)
def test_unusable_options_are_4_in_one_line_and_touch_nothing(
    project: Project, arguments: list[str], words: str
) -> None:
    run = project.run(*arguments)
    assert run.code == 4
    errors = [line for line in run.out.splitlines() if line.startswith("ERROR: ")]
    assert len(errors) == 1
    assert words in errors[0] or "hybridlab up" in errors[0]
    assert not (project.path / "cluster.log").exists()
    assert not (project.path / "reports").exists()


def test_keeping_on_a_lab_of_its_own_says_what_to_do_instead() -> None:
    with pytest.raises(UsageProblem, match="hybridlab up --kubeconfig PATH"):
        choose(cluster=None, kubeconfig=None, context=None, profile=None, keep=True)


@pytest.mark.parametrize(
    ("given", "how", "why"),
    [
        ({}, "lab", "the default; name another cluster by --kubeconfig=PATH"),
        ({"cluster": "lab"}, "lab", "--cluster lab"),
        ({"kubeconfig": "x"}, "kubeconfig", "--kubeconfig"),
        ({"context": "c"}, "kubeconfig", "KUBECONFIG, by --context"),
        ({"cluster": "kubeconfig"}, "kubeconfig", "KUBECONFIG, by --cluster kubeconfig"),
        ({"cluster": "in-cluster"}, "in-cluster", "--cluster in-cluster"),
    ],
)
def test_a_cluster_is_used_only_when_it_is_named(given: dict[str, str], how: str, why: str) -> None:
    options = {
        "cluster": None,
        "kubeconfig": None,
        "context": None,
        "profile": None,
        "keep": False,
        **given,
    }
    choice = choose(**options)  # type: ignore[arg-type]
    assert (choice.how, choice.why) == (how, why)


WORLD = """
claim: POL-1
objects:
- {apiVersion: projectcalico.org/v3, kind: NetworkPolicy, metadata: {name: p, namespace: '${a}'}, spec: {}}
"""
OF_WORLDS = """
from conformance.marks import each_world
@each_world()
def test_world(world): pass
@each_world(edits=True)
def test_edit(world): pass
"""


def test_one_world_runs_though_the_test_of_edits_has_none(project: Project) -> None:
    project.suite(SUITE + OF_WORLDS)
    (project.path / "mine.yaml").write_text(WORLD)
    run = project.run(f"--world={project.path / 'mine.yaml'}", "--collect-only", "-q")
    assert "test_world[mine]" in run.out
    assert "test_edit" not in run.out
    assert "says of no claim" not in run.out
