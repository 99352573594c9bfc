# SPDX-License-Identifier: Apache-2.0
"""However a run ends, it has the documented exit code, and no planned test is missing from the
report."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import time

import pytest

from conformance.report import allure_results, summed_up
from tests.plugin.junit_statuses import statuses
from tests.plugin.waiting import MANY, assert_all_outputs_know, verdicts, wait_for

from .conftest import Project


def test_nothing_violated_is_0(project: Project) -> None:
    project.suite('@verifies("CONN-1")\ndef test_it(): pass')
    run = project.run()
    assert (run.code, run.verdict("CONN-1")) == (0, "CONFIRMED")


def test_a_requirement_unmet_is_loud_and_0(project: Project) -> None:
    project.suite(
        '@pytest.mark.undecided\n@verifies("PLAT-6")\ndef test_it(): raise Unmet("build 17763.1 is too low")'
    )
    run = project.run()
    assert run.code == 0
    assert "UNMET        PLAT-6    build 17763.1 is too low" in run.out


def test_something_inconclusive_is_6(project: Project) -> None:
    project.suite(
        '@verifies("CONN-1")\ndef test_it(): raise ProbeBroken("exec returned no status")'
    )
    run = project.run()
    assert (run.code, run.verdict("CONN-1")) == (6, "INCONCLUSIVE")


def test_nothing_selected_is_5(project: Project) -> None:
    project.suite('@verifies("CONN-1")\ndef test_it(): pass')
    assert project.run("-k", "bgp").code == 5
    assert project.run("--claim", "CONN-2").code == 5


LONG = """
import os
from conformance.plugin import state
@verifies("CONN-1", part="{number}")
@pytest.mark.parametrize("number", range(8))
def test_many(number, request):
    run = state.of(request.config).run
    ticks = int(open("/proc/self/stat").read().rpartition(")")[2].split()[19])
    if "PYTEST_XDIST_WORKER" in os.environ and run.began > ticks / os.sysconf("SC_CLK_TCK"):
        raise ProbeBroken("a worker counts from its own start")
    run.began -= 3600
"""


@pytest.mark.parametrize("workers", [0, 2])
def test_after_max_minutes_nothing_begins_and_the_rest_is_not_run(
    project: Project, workers: int
) -> None:
    project.suite(LONG)
    run = project.run("-n", str(workers), "--max-minutes", "60", "--require", "core")
    said = [test for test in run.report["tests"] if test["verdict"] != "CONFIRMED"]
    assert len(said) == 8 - max(1, workers)
    assert {test["verdict"] for test in said} == {"NOT_RUN"}
    assert {test["reason"] for test in said} == {
        "--max-minutes 60 had passed before this test began"
    }
    assert (
        run.report["run"]["cut_short"]
        == f"{len(said)} planned tests were not run, because --max-minutes had passed"
    )
    assert run.out.count("--max-minutes 60 have passed: no test begins") == 1
    assert_all_outputs_know(run, 8)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_token_that_ends_before_the_run_may_is_announced_once_and_noted(
    project: Project, workers: int
) -> None:
    project.suite('@verifies("CONN-1")\ndef test_it(): pass')
    run = project.run("-n", str(workers), STAND_IN=json.dumps({"token_ends": time.time() + 30}))
    said = "note: the user's credentials end at "
    assert run.code == 0
    assert run.out.count(said) == 2  # when the tests are known, and among the notes
    assert said in project.run("--plan", STAND_IN=json.dumps({"token_ends": time.time() + 30})).out
    assert said not in project.run(STAND_IN=json.dumps({"token_ends": time.time() + 36_000})).out


def test_a_dead_worker_makes_its_test_inconclusive_in_every_output(project: Project) -> None:
    project.suite(MANY % "os._exit(1)")
    run = project.run("-n", "2")
    assert run.code == 6
    assert verdicts(run) == {
        **{str(number): "CONFIRMED" for number in range(8)},
        "3": "INCONCLUSIVE",
    }
    assert run.verdict("CONN-1") == "INCONCLUSIVE"
    assert run.claim("CONN-1")["missing_parts"] == ["3"]
    assert_all_outputs_know(run, 8)
    assert run.folder
    assert statuses(run.folder / "junit.xml")["suites/test_it.py::test_many[3]"] == "error"
    assert (
        allure_results.written_tests(run.folder / "allure")["suites/test_it.py::test_many[3]"]
        == "broken"
    )


def test_workers_that_all_die_leave_the_rest_not_run(project: Project) -> None:
    project.suite(MANY.replace("number == 3", "True") % "os._exit(1)")
    run = project.run("-n", "2", "--max-worker-restart", "0")
    assert run.code not in (0, 5)
    assert "NOT_RUN" in verdicts(run).values()
    assert_all_outputs_know(run, 8)


@pytest.mark.parametrize("workers", ["0", "2"])
def test_x_leaves_the_rest_not_run_and_partial(project: Project, workers: str) -> None:
    project.suite(MANY % 'raise Nonconformance("refused")' + "    time.sleep(0.02)\n")
    run = project.run("-x", "-n", workers)
    assert run.code == 1
    found = verdicts(run)
    assert found["3"] == "VIOLATED"
    assert "NOT_RUN" in found.values()
    assert run.verdict("CONN-1") == "VIOLATED"
    assert_all_outputs_know(run, 8)


@pytest.mark.parametrize("workers", ["0", "2"])
def test_pytests_own_summary_has_whole_first_lines(project: Project, workers: str) -> None:
    project.suite(MANY % 'raise Nonconformance("CONN-1: " + "w" * 200 + " is wrong")')
    run = project.run("-n", workers)
    assert re.search(
        r"^VIOLATED suites/test_it\.py::\S+ - CONN-1: w{200} is wrong$", run.out, re.MULTILINE
    )


@pytest.mark.parametrize(("options", "shown"), [([], False), (["--tb=long"], True)])
def test_a_failure_shows_the_line_of_its_test_and_no_fixture_s_value(
    project: Project, options: list[str], shown: bool
) -> None:
    project.suite(MANY % 'raise Nonconformance("CONN-1: refused")')
    run = project.run("-n", "0", *options)
    assert "Nonconformance: CONN-1: refused" in run.out
    assert bool(re.search(r"^(number|record) += ", run.out, re.MULTILINE)) is shown


SKIPPED = """
@verifies("ENC-3", part="{number}")
@pytest.mark.parametrize("number", range(2))
def test_lacking(number): raise MissingCapability("there is no calicoctl", "name one")

@verifies("BGP-1")
def test_elsewhere(): pass

@verifies("CONN-1")
def test_broken(): raise ProbeBroken("the agent died")

@verifies("CONN-3")
def test_refused(): raise Nonconformance("CONN-3: refused")
"""


@pytest.mark.parametrize("workers", ["0", "2"])
def test_pytests_own_summary_has_each_verdicts_own_word_and_the_gravest_last(
    project: Project, workers: str
) -> None:
    project.suite(SKIPPED)
    project.suite("pytest.skip('not today', allow_module_level=True)", name="test_other.py")
    told = project.run("-n", workers).out.rpartition("short test summary info")[2]
    lines = [line for line in told.splitlines()[1:] if not line.startswith("=")]
    assert lines == [
        "NOT_APPLICABLE [1] not about this cluster; -v prints each reason",
        "SKIPPED [1] suites/test_other.py: Skipped: not today",
        "NOT_RUN [2] suites/test_it.py: there is no calicoctl; name one",
        "INCONCLUSIVE suites/test_it.py::test_broken - the agent died",
        "VIOLATED suites/test_it.py::test_refused - CONN-3: refused",
    ]
    whole = project.run("-n", workers, "-v").out
    assert re.search(
        r"^NOT_APPLICABLE \[1\] suites/test_it\.py: BGP-1: it is about mode bgp; ",
        whole,
        re.MULTILINE,
    )
    assert "-v prints each reason" not in whole
    few = project.run("-n", workers, "-rf").out.rpartition("short test summary info")[2]
    assert "NOT_RUN [" not in few
    assert "VIOLATED suites/test_it.py::test_refused" in few


@pytest.mark.parametrize("workers", ["0", "2"])
def test_an_api_server_that_is_gone_leaves_the_rest_inconclusive_at_once(
    project: Project, workers: str
) -> None:
    project.suite(MANY % "pass")
    run = project.run(
        "-n", workers, STAND_IN='{"gone": "the API server has not answered for 40 s: refused"}'
    )
    assert run.code == 6
    assert set(verdicts(run).values()) == {"INCONCLUSIVE"}
    assert (
        "the API server has not answered for 40 s: refused; the remaining tests are INCONCLUSIVE"
        in run.out
    )
    gone = "the API server has not answered for 40 s: refused"
    assert [text for text, _ in summed_up.all_causes(run.report)] == [gone]
    assert f"undecided: {gone})" in run.out, "the exit line has the cause alone"
    printed = [line for line in run.out.splitlines() if line.startswith("INCONCLUSIVE CONN-1: ")]
    assert len(printed) == 1, "a claim that stays undecided for the cause is named once"
    assert_all_outputs_know(run, 8)


@pytest.mark.parametrize("workers", ["0", "2"])
def test_what_leaves_nothing_to_decide_ends_the_run_in_one_line(
    project: Project, workers: str
) -> None:
    why = "the run cannot create a namespace: 403 Forbidden: the webhook says no"
    ends = (
        f"open('reports/latest/.run/ended', 'w').write({why!r}); "
        "from conformance.errors import EnvironmentBroken; raise EnvironmentBroken('it is refused')"
    )
    project.suite(MANY % ends)
    run = project.run("-n", workers)
    assert run.code == 6
    found = verdicts(run)
    assert found.pop("3") == "INCONCLUSIVE"
    assert found["7"] == "NOT_RUN"
    assert set(found.values()) == {"CONFIRMED", "NOT_RUN"}
    assert f"Interrupted: {why} !" in run.out
    assert f"the run ended: {why}" in run.out
    assert {test["reason"] for test in run.report["tests"] if test["verdict"] == "NOT_RUN"} == {why}
    assert_all_outputs_know(run, 8)


@pytest.mark.parametrize(
    "arguments", [(), ("--kubeconfig", "lane", "--keep")], ids=["own lab", "--keep"]
)
def test_nothing_is_swept_on_a_lab_that_ends_anyway_or_where_all_is_kept(
    project: Project, arguments: tuple[str, ...]
) -> None:
    project.suite(MANY % "pass")
    assert project.run(*arguments).code == 0
    assert "clean_up" not in (project.path / "cluster.log").read_text()


def test_a_crashed_worker_is_told_by_the_test_that_it_ran(project: Project) -> None:
    project.suite(MANY % "import os; os._exit(3)")
    run = project.run("-n", "1", "--max-worker-restart=0")
    assert run.code == 6
    assert "crashed while running" in str(run.claim("CONN-1")["reason"])


@pytest.mark.parametrize("arguments", [(), ("-v",), ("-q", "-rA")], ids=["usual", "-v", "-q -rA"])
def test_a_crashed_worker_is_in_pytest_s_summary_what_it_is_in_the_report(
    project: Project, arguments: tuple[str, ...]
) -> None:
    """Whoever reads the log for VIOLATED must not find a claim that nobody has decided."""
    project.suite('@verifies("CONN-1")\ndef test_it(): import os; os._exit(3)')
    run = project.run("-n", "1", "--max-worker-restart=0", *arguments)
    assert run.verdict("CONN-1") == "INCONCLUSIVE"
    assert "INCONCLUSIVE suites/test_it.py::test_it - worker 'gw0' crashed while running" in run.out
    assert "ERROR at the worker's crash of suites/test_it.py" in run.out
    assert "1 error" in run.out
    assert not any(word in run.out for word in ("VIOLATED", "1 failed", "FAILED"))


def test_the_cluster_is_closed_however_the_run_ends(project: Project) -> None:
    project.suite(MANY % "open('here', 'w').close(); time.sleep(30)")
    process = project.start()
    wait_for(project.path / "here")
    os.killpg(process.pid, signal.SIGINT)
    project.finish(process)
    assert (project.path / "cluster.log").read_text().split()[-1] == "close"


def test_the_repeating_command_names_the_cluster_in_words_that_a_shell_and_pytest_understand(
    project: Project,
) -> None:
    project.suite('@verifies("CONN-1")\ndef test_it(): raise Nonconformance("refused")')
    elsewhere = project.path.parent / "my lane.yaml"
    elsewhere.touch()
    run = project.run(f"--kubeconfig={elsewhere}", "--tolerate", "os=windows:NoSchedule")
    assert run.code == 1
    again = next(line for line in run.out.splitlines() if "again     pytest" in line).partition(
        "again     pytest "
    )[2]
    assert shlex.split(again) == [
        "--claim",
        "CONN-1",
        f"--kubeconfig={elsewhere}",
        "--tolerate=os=windows:NoSchedule",
    ]
    assert project.run(*shlex.split(again)).code == 1
