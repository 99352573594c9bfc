# SPDX-License-Identifier: Apache-2.0
"""The image's files run the suite as the Job starts it: without HOME, without root, with a
read-only file system."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from conformance.jobs import holder
from conformance.jobs.fetch import archive
from tests.lab.jobs.image_tree import build
from tests.lab.jobs.pod import Pod, pod_of
from tests.lab.lab_process import RunningLab, running_lab

pytestmark = [pytest.mark.whole_run, pytest.mark.xdist_group("image")]
WITHIN = 300.0
OPTIONS = ("--cluster=in-cluster", "-p", "no:cacheprovider", "-n", "0")
WITHOUT_LINKS = """
import errno, os

def refused(*_, **__):
    raise PermissionError(errno.EPERM, "Operation not permitted")

os.symlink = os.link = refused
"""
"""A volume as SMB has it, for each Python process of a container (``sitecustomize``)."""
WITHOUT_LOCKS = f"""{WITHOUT_LINKS}
import fcntl

def no_locks(*_):
    raise OSError(errno.ENOLCK, "No locks available")

fcntl.flock = fcntl.lockf = no_locks
"""
"""A volume as NFS has it if nobody keeps its locks."""
COMPILED = """
import sys

def seen(event, about):
    if event == "compile" and "/site-packages/conformance/" in str(about[1]):
        print("compiled", about[1], file=sys.stderr)

sys.addaudithook(seen)
"""
"""Names each file of the suite that a Python process of a container compiles (``sitecustomize``).
"""


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("image"))


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> object:
    with running_lab(tmp_path_factory.mktemp("lab")) as one:
        yield one


def a_pod(lab: RunningLab, suite: Path, folder: Path, *roles: str) -> Pod:
    """The Job's pod on the lab, with the objects that `calico-conformance job` prints but the Job
    itself, which the lab does not emulate."""
    program = [str(suite / "bin" / "calico-conformance")]
    printed = subprocess.run(
        [*program, "job", "--image=x", *roles], capture_output=True, text=True, check=True
    ).stdout
    objects, _, job = printed.rpartition("---\n")
    assert "kind: Job" in job
    lab.kubectl("apply", "-f", "-", stdin=objects)
    account = f"runner-{roles[1]}" if "--role" in roles else "runner"
    token = lab.kubectl(
        "create", "token", account, "-n", "calico-conformance", "--duration=1h"
    ).stdout.strip()
    pod = pod_of(lab.kubeconfig, token, folder)
    pod.address = "192.168.255.5"
    pod.program = tuple(program)
    pod.environment = {"PATH": f"{suite / 'bin'}:/usr/bin:/bin", "PYTHONPATH": ""}
    return pod


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    out, _ = process.communicate(timeout=WITHIN)
    return process.returncode, out


def made_by_runs(lab: RunningLab) -> str:
    """Return the namespaces that runs have made."""
    return lab.kubectl("get", "namespaces", "-l", "calico-conformance/run", "-o", "name").stdout


def test_the_job_runs_and_its_results_are_sent(
    lab: RunningLab, suite: Path, tmp_path: Path
) -> None:
    pod = a_pod(lab, suite, tmp_path)
    results = pod.results / "conformance-x"
    code, out = ended(
        pod.start(
            "run", "--cluster=in-cluster", f"--report-dir={results}", "-p", "no:cacheprovider",
            "-n", "0", "--smoke",
        )
    )  # fmt: skip
    assert code == 0, out
    assert "4 CONFIRMED" in out
    assert "the pod's service account (chosen by --cluster in-cluster)" in out
    held = pod.start("hold", str(results))
    sent = pod.command([*pod.program, "hold", "--send", str(results)])
    lines = subprocess.run(sent, cwd="/", capture_output=True, check=True).stdout.splitlines()
    head, body = archive(iter(lines))
    assert body[:2] == b"PK"
    (run,) = results.glob("20*")
    assert head["name"] == f"{run.name}.zip"
    assert held.poll() is None, "it waits until the results are fetched"
    assert ended(pod.start("hold", "--release", str(results)))[0] == 0
    assert ended(held)[0] == 0
    assert (results / holder.TAKEN).exists()


def test_no_process_compiles_the_suite(lab: RunningLab, suite: Path, tmp_path: Path) -> None:
    pod = a_pod(lab, suite, tmp_path)
    pod.environment["PYTHONDONTWRITEBYTECODE"] = "1"
    on_a_volume(pod, tmp_path / "judge", COMPILED)
    options = ("--cluster=in-cluster", "-p", "no:cacheprovider", "-n", "2", "--claim=DEMO-2")
    code, out = ended(pod.start("run", *options, f"--report-dir={pod.results}"))
    assert code == 0, out
    assert re.findall(r"(?m)^compiled .*\.py$", out) == []


def on_a_volume(pod: Pod, folder: Path, text: str) -> Pod:
    """Let the next containers of a pod have a volume that refuses some system calls."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(text)
    pod.environment["PYTHONPATH"] = str(folder)
    return pod


def test_a_volume_needs_no_links_and_no_locks_but_between_processes_of_the_judge(
    lab: RunningLab, suite: Path, tmp_path: Path
) -> None:
    pod = a_pod(lab, suite, tmp_path, "--volume=results")
    on_a_volume(pod, tmp_path / "judge", WITHOUT_LINKS)
    options = ("run", "--cluster=in-cluster", "-p", "no:cacheprovider", "-n", "2", "--smoke")
    results = pod.results / "conformance-x"
    code, out = ended(pod.start(*options, f"--report-dir={results}"))
    assert code == 0, out
    assert "4 CONFIRMED" in out
    (run,) = results.iterdir()
    assert run.name.startswith("20"), "nothing leads to it: no link can be made"
    on_a_volume(pod, tmp_path / "holder", WITHOUT_LOCKS)
    held = pod.start("hold", str(results))
    sent = pod.command([*pod.program, "hold", "--send", str(results)])
    lines = subprocess.run(sent, cwd="/", capture_output=True, check=True).stdout.splitlines()
    head, body = archive(iter(lines))
    assert (head["name"], body[:2]) == (f"{run.name}.zip", b"PK")
    assert ended(pod.start("hold", "--release", str(results)))[0] == 0
    assert ended(held)[0] == 0
    assert (run / "conformance.json").exists(), "a volume keeps them"
    code, out = ended(pod.start(*options, f"--report-dir={pod.results / 'conformance-y'}"))
    assert code == 4
    assert "conformance-y (--report-dir): No locks available" in out


@pytest.mark.parametrize(
    ("role", "options", "said"),
    [
        ("read-only", ["--plan"], "the pod's service account (chosen by --cluster in-cluster)"),
        ("disruptive", ["--claim=RST-3", "--allow-disruptive"], "claims: 1 still there"),
    ],
    ids=["read-only", "disruptive"],
)
def test_the_job_runs_with_less_and_with_more_rights(
    lab: RunningLab, suite: Path, tmp_path: Path, *, role: str, options: list[str], said: str
) -> None:
    pod = a_pod(lab, suite, tmp_path, "--role", role)
    code, out = ended(pod.start("run", *OPTIONS, f"--report-dir={pod.results}", *options))
    assert code == 0, out
    assert said in out
    assert made_by_runs(lab) == ""


def test_the_next_pod_removes_what_a_killed_one_made(
    lab: RunningLab, suite: Path, tmp_path: Path
) -> None:
    pod = a_pod(lab, suite, tmp_path)
    run = pod.start("run", *OPTIONS, f"--report-dir={pod.results}", "--smoke")
    assert run.stdout
    for line in run.stdout:
        if "%]" in line:  # the first test has ended
            break
    os.kill(run.pid, signal.SIGKILL)
    run.wait(WITHIN)
    (killed,) = set(re.findall("calico-demo-([0-9a-f]{6})-", made_by_runs(lab)))
    code, out = ended(pod.start("run", *OPTIONS, "--janitor"))
    assert (code, made_by_runs(lab)) == (0, ""), out
    assert f"calico-demo-{killed}-" in out


def test_nothing_else_can_be_written_and_nothing_of_the_lab_is_there(
    lab: RunningLab, suite: Path, tmp_path: Path
) -> None:
    assert not list(suite.rglob("hybridlab*"))
    pod = a_pod(lab, suite, tmp_path)
    asks = (
        "import os, pathlib\n"
        "print(os.getuid(), 'HOME' in os.environ)\n"
        "for path in ('/opt', '/usr', '/etc', '/var/tmp'):\n"
        "    try: pathlib.Path(path, 'conformance-was-here').touch(); print('wrote', path)\n"
        "    except OSError: pass\n"
    )
    pod.program = (str(suite / "bin" / "python"), "-c", asks)
    assert ended(pod.start()) == (0, "65532 False\n")


@pytest.mark.parametrize("after", ["at once", "in a test"])
def test_a_deleted_pod_removes_what_its_run_made(
    lab: RunningLab, suite: Path, tmp_path: Path, after: str
) -> None:
    pod = a_pod(lab, suite, tmp_path)
    run = pod.start(
        "run", "--cluster=in-cluster", f"--report-dir={pod.results}", "-p", "no:cacheprovider",
        "-n", "0", "--smoke",
    )  # fmt: skip
    begun = "collected" if after == "at once" else "%]"  # printed when the first test has ended
    seen = ""
    assert run.stdout
    for line in run.stdout:
        seen += line
        if begun in line:
            break
    os.kill(run.pid, signal.SIGTERM)
    code, out = ended(run)
    assert code == 2, seen + out
    assert made_by_runs(lab) == ""
    if after == "at once":  # no test was known yet, and there is nothing to report
        return
    (report,) = pod.results.glob("20*/conformance.json")
    assert json.loads(report.read_text())["run"]["exit_code"] == 2
