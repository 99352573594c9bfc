# SPDX-License-Identifier: Apache-2.0
"""However a run ends, it has the documented exit code and nothing that was planned disappears."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import time
from pathlib import Path

import pytest

from conformance.report import allure_results
from tests.plugin.junit_statuses import statuses

from .conftest import WITHIN, Project, Run

MANY = """
import os, time
@verifies("CONN-1", part="{number}")
@pytest.mark.parametrize("number", range(8))
def test_many(number, record):
    record.touched(["windows"])
    if number == 3:
        %s
"""


def verdicts(run: Run) -> dict[str, str]:
    return {
        test["test"].rpartition("[")[2].rstrip("]"): test["verdict"] for test in run.report["tests"]
    }


def assert_all_outputs_know(run: Run, count: int) -> None:
    assert run.folder
    assert len(run.report["tests"]) == count
    assert len(statuses(run.folder / "junit.xml")) == count
    assert len(allure_results.written_tests(run.folder / "allure")) == count


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
    assert {test["reason"] for test in said} == {"--max-minutes 60 had passed before it"}
    assert (
        run.report["run"]["cut_short"]
        == f"{len(said)} planned tests were not run, because --max-minutes had passed"
    )
    assert run.out.count("--max-minutes 60 are over: no test begins now") == 1
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


@pytest.mark.parametrize("minutes", ["0", "-1", "nan"])
def test_minutes_in_which_nothing_could_run_are_refused(project: Project, minutes: str) -> None:
    project.suite('@verifies("CONN-1")\ndef test_it(): pass')
    run = project.run(f"--max-minutes={minutes}")
    assert run.code == 4
    assert f"--max-minutes {minutes}: expected more than 0" in run.out


def test_fewer_workers_than_none_are_refused_before_a_lab_is_started(project: Project) -> None:
    run = project.run("-n", "-2")
    assert (run.code, run.out.strip()) == (4, "ERROR: -n -2: expected 0 or more workers")


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


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["suites/nope"], 4, "suites/nope: there is no such file or folder"),
        (["-m", "nosuchmark"], 4, "no test has the mark nosuchmark; there are "),
        (["--clam=CONN-1"], 4, "--clam=CONN-1: no such option; meant --claim?"),
        (["--claim=CONN-1", "-k", "dns"], 5, "no test exists yet about dns is about: CONN-6"),
        (["--claim=DEMO-2", "-k", "node-to-pod"], 5, "DEMO-2 is not among -k 'node-to-pod'"),
    ],
)
def test_what_does_not_exist_is_said_in_one_line_before_a_lab_is_started(
    project: Project, arguments: list[str], code: int, told: str
) -> None:
    project.suite(MANY % "pass")
    run = project.run(*arguments)
    assert run.code == code
    assert told in run.out
    assert not (project.path / "cluster.log").exists()


@pytest.mark.parametrize("workers", ["0", "2"])
def test_an_interruption_is_2_and_leaves_the_rest_not_run(project: Project, workers: str) -> None:
    project.suite(MANY % "open('here', 'w').close(); time.sleep(30)")
    process = project.start("-n", workers)
    wait_for(project.path / "here")
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    run = project.finish(process)
    assert run.code == 2
    assert verdicts(run)["3"] == "NOT_RUN"
    assert run.verdict("CONN-1") == "NOT_RUN"
    assert run.claim("CONN-1")["missing_parts"]
    assert_all_outputs_know(run, 8)


def test_a_cancelled_run_clears_up_as_after_ctrl_c_and_says_what_was_left(project: Project) -> None:
    project.suite(MANY % "open('here', 'w').close(); time.sleep(30)")
    process = project.start("--kubeconfig", "lane", STAND_IN='{"left": ["Namespace x was left"]}')
    wait_for(project.path / "here")
    os.kill(process.pid, signal.SIGTERM)  # as CI systems cancel
    run = project.finish(process)
    assert run.code == 2
    assert "Namespace x was left" in run.out
    assert (project.path / "cluster.log").read_text().split()[-2:] == ["clean_up", "close"]


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
        "the API server has not answered for 40 s: refused; what was left then is INCONCLUSIVE"
        in run.out
    )
    assert_all_outputs_know(run, 8)


@pytest.mark.parametrize("workers", ["0", "2"])
def test_what_leaves_nothing_to_decide_ends_the_run_in_one_line(
    project: Project, workers: str
) -> None:
    why = "no namespace can be made: 403 Forbidden: the webhook says no"
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


WAITING = """
import threading, time
from concurrent.futures import ThreadPoolExecutor
ended = threading.Event()

@pytest.fixture(scope="session")
def pulled(cluster):
    with ThreadPoolExecutor(2) as pool:
        work = pool.submit(wait)
        open("here", "w").close()
        work.result()

def wait():
    import pathlib
    while "interrupt" not in pathlib.Path("cluster.log").read_text():
        time.sleep(0.05)

@verifies("CONN-1")
def test_it(pulled): pass
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_what_is_waited_for_in_other_threads_too(
    project: Project, number: int
) -> None:
    """Otherwise the run would wait for them without end."""
    project.suite(WAITING)
    process = project.start()
    wait_for(project.path / "here")
    os.kill(process.pid, number)
    while not heard_within(15, project.path / "cluster.log"):
        os.kill(
            process.pid, number
        )  # one that comes just before a thread begins to wait is heard with the next
    run = project.finish(process)
    assert run.code == 2
    assert run.verdict("CONN-1") == "NOT_RUN"
    assert "interrupt 20" in (project.path / "cluster.log").read_text()


def test_a_thread_that_waits_on_after_a_signal_keeps_neither_the_report_nor_the_process(
    project: Project,
) -> None:
    """Neither the thread nor the test would ever end."""
    project.suite(
        "import threading\n"
        '@verifies("CONN-1")\n'
        "def test_it():\n"
        "    threading.Thread(target=threading.Event().wait).start()\n"
        "    open('here', 'w').close()\n"
        "    threading.Event().wait()\n"
    )
    process = project.start()
    wait_for(project.path / "here")
    os.kill(process.pid, signal.SIGTERM)
    run = project.finish(process)
    assert run.code == 2
    assert run.verdict("CONN-1") == "NOT_RUN"
    assert (project.path / "cluster.log").read_text().split()[-1] == "close"


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


def test_unusable_clusters_are_7_with_all_reasons(project: Project) -> None:
    project.suite('@verifies("CONN-1")\ndef test_it(): pass')
    run = project.run(STAND_IN='{"reasons": ["no Windows node", "may not create pods"]}')
    assert run.code == 7
    assert "no Windows node" in run.out
    assert "may not create pods" in run.out
    assert run.folder is not None


def test_a_cluster_that_breaks_while_it_is_looked_at_is_7_in_one_line(project: Project) -> None:
    project.suite('@verifies("CONN-1")\ndef test_it(): pass')
    run = project.run(STAND_IN='{"broken": "namespace x is still there\\n  finalizers none"}')
    assert run.code == 7
    assert "ERROR: cannot run on this cluster: namespace x is still there\n" in run.out
    assert "Traceback" not in run.out


def test_a_refused_kubeconfig_is_4_in_one_line(project: Project) -> None:
    project.suite('@verifies("CONN-1")\ndef test_it(): pass')
    run = project.run(
        "--kubeconfig",
        "missing.yaml",
        STAND_IN='{"usage": "kubeconfig missing.yaml: no such file"}',
    )
    assert run.code == 4
    assert "ERROR: kubeconfig missing.yaml: no such file" in run.out
    assert not list((project.path / "reports").glob("2*"))


@pytest.mark.parametrize("workers", ["0", "2"])
def test_windows_tests_that_found_no_windows_node_are_7(project: Project, workers: str) -> None:
    project.suite('@verifies("CONN-3")\ndef test_it(): pass')
    run = project.run("-n", workers, STAND_IN='{"windows": 0}')
    assert run.code == 7
    assert "note: no test that needs a Windows node ran (1 selected)" in run.out


def test_windows_tests_that_only_touched_linux_pods_are_7(project: Project) -> None:
    project.suite('@verifies("CONN-3")\ndef test_it(record): record.touched(["linux"])')
    run = project.run()
    assert run.code == 7
    assert "no test that needs a Windows node used a pod on one (1 ran)" in run.out


def test_a_selection_of_linux_parts_is_no_selection_of_windows_tests(project: Project) -> None:
    project.suite(
        '@verifies("CONN-3", part="linux->linux pod-ip")\ndef test_it(record): record.touched(["linux"])'
    )
    assert project.run().code == 0


@pytest.mark.parametrize("workers", ["0", "2"])
def test_wrong_marks_are_4_before_anything_runs(project: Project, workers: str) -> None:
    project.suite('@verifies("CONN-99")\ndef test_it(): pass')
    run = project.run("-n", workers)
    assert run.code == 4
    assert "verifies('CONN-99'): no such claim" in run.out


@pytest.mark.parametrize("workers", ["0", "2"])
@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("def test_it(): pass", "verifies no claim"),
        ('@verifies("CONN-1", part="{os}")\ndef test_it(): pass', "has parameters none"),
    ],
)
def test_tests_that_do_not_say_what_they_decide_are_4(
    project: Project, workers: str, body: str, words: str
) -> None:
    project.suite(body)
    run = project.run("-n", workers)
    assert run.code == 4
    assert words in run.out


def test_a_test_file_that_cannot_be_imported_is_not_green(project: Project) -> None:
    project.suite("import nonsense_that_is_not_there")
    assert project.run().code == 2


def heard_within(seconds: float, log: Path) -> bool:
    """Return whether a signal has reached the run's handler. The limit is generous, because a
    second Ctrl-C has another meaning."""
    deadline = time.monotonic() + seconds
    while "interrupt" not in log.read_text() and time.monotonic() < deadline:
        time.sleep(0.05)
    return "interrupt" in log.read_text()


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + WITHIN
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} never appeared"
        time.sleep(0.05)
