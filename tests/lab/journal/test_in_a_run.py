# SPDX-License-Identifier: Apache-2.0
"""A run leaves a user's edit alone and writes no secret anywhere; the janitor touches only
objects of dead runs of the suite."""

from __future__ import annotations

import base64
import json
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from conformance.journal.lease import RunLock
from conformance.journal.liveness import Life
from conformance.journal.store import entries_of, journals
from conformance.kube.changes import Changes
from conformance.kube.ownership import SYSTEM_NAMESPACE, Ownership
from conformance.model.change import ObjectRef
from conformance.undo.leftovers import Leftovers, leftovers
from tests.lab.journal.locks import lock_timings
from tests.reliability import hit_run
from tests.reliability.kills import WHOLE

pytestmark = [pytest.mark.xdist_group("journal-runs"), pytest.mark.whole_run]
FELIX = ObjectRef(api_version="projectcalico.org/v3", kind="FelixConfiguration", name="default")
WITHIN = 60.0
"""Seconds; only a run that hangs is caught."""
TOKEN = "planted-bearer-token-5d1c"
PASSWORD = "planted-password-9f2e"


@pytest.fixture(scope="module")
def harness() -> Iterator[hit_run.Harness]:
    with hit_run.harness("small", ()) as one:
        yield one


def journalled(harness: hit_run.Harness, run: subprocess.Popen[bytes]) -> None:
    """Wait until a change of the run is in force."""
    deadline = time.monotonic() + WITHIN
    while not any(
        entry.state == "done" for journal in journals(harness.kube) for entry in entries_of(journal)
    ):
        assert time.monotonic() < deadline, (harness.folder / "run.log").read_text()
        assert run.poll() is None, (harness.folder / "run.log").read_text()
        time.sleep(0.05)


def test_a_users_edit_during_a_disruptive_test_survives_and_is_named(
    harness: hit_run.Harness,
) -> None:
    run = harness.start()
    journalled(harness, run)
    user = Changes(harness.kube, Ownership("user"))
    user.patch(FELIX, {"spec": {"vxlanVNI": 5000}}, "a user's edit", foreign=True)
    assert run.wait(WITHIN) == 6
    assert harness.kube.get(FELIX.api_version, FELIX.kind, FELIX.name)["spec"]["vxlanVNI"] == 5000
    said = (harness.folder / "run.log").read_text()
    assert ".spec.vxlanVNI was 4096, was set to 4097 by this suite and is now 5000" in said
    user.patch(FELIX, {"spec": {"vxlanVNI": 4096}}, "a user's edit", foreign=True)


def test_what_the_janitor_does_not_own_it_does_not_touch(harness: hit_run.Harness) -> None:
    harness.lab.kubectl("create", "namespace", "calico-demo-of-a-user")
    harness.lab.kubectl("create", "namespace", "somebodys")
    harness.lab.kubectl(
        "label", "namespace", "somebodys", "app.kubernetes.io/managed-by=calico-windows-conformance"
    )
    node = harness.kube.objects("v1", "Node")[-1]["metadata"]["name"]
    harness.lab.kubectl("cordon", node)
    harness.lab.kubectl("create", "configmap", "journal-x", "-n", "default", "--from-literal=a=b")
    done = subprocess.run(
        harness.command("--janitor"), cwd=harness.project, env=harness.environment, capture_output=True, text=True,
        timeout=WITHIN, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    for kind, name in (
        ("namespace", "calico-demo-of-a-user"),
        ("namespace", "somebodys"),
        ("configmap", "journal-x"),
    ):
        assert harness.lab.kubectl("get", kind, name).returncode == 0
    assert harness.kube.get("v1", "Node", node)["spec"]["unschedulable"]
    harness.lab.kubectl("uncordon", node)
    harness.lab.kubectl("delete", "namespace", "calico-demo-of-a-user", "somebodys")


def test_the_janitor_says_what_it_would_do_and_then_does_it(harness: hit_run.Harness) -> None:
    run = harness.start()
    journalled(harness, run)
    harness.hit(hit_run.Point(number=0, victim="all", changed=False, after=0.0), run)
    node = harness.kube.objects("v1", "Node")[-1]["metadata"]["name"]

    def janitor(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            harness.command("--janitor", *arguments), cwd=harness.project, env=harness.environment, capture_output=True,
            text=True, timeout=WITHIN, check=False,
        )  # fmt: skip

    before = [leftover.lines() for leftover in _leftovers(harness)]
    dry = janitor("--dry-run")
    assert dry.returncode == 0
    assert "to put back: patch FelixConfiguration default" in dry.stdout
    assert "Lease calico-conformance-system/run-lock" in dry.stdout
    assert "dry run: nothing was changed" in dry.stdout
    assert [leftover.lines() for leftover in _leftovers(harness)] == before
    done = janitor()
    assert done.returncode == 0, done.stdout + done.stderr
    assert WHOLE in done.stdout
    assert _leftovers(harness) == []
    assert not harness.kube.get("v1", "Node", node)["spec"].get("unschedulable")
    assert harness.kube.find("v1", "Namespace", "calico-conformance-system") is None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_told_to_end_puts_everything_back_itself(
    harness: hit_run.Harness, number: signal.Signals
) -> None:
    before = content(harness)
    run = harness.start()
    journalled(harness, run)
    run.send_signal(number)
    assert run.wait(WITHIN) == 2
    assert content(harness) == before
    assert _leftovers(harness) == []


def test_what_a_dead_worker_had_changed_is_put_back_before_the_run_ends(
    harness: hit_run.Harness,
) -> None:
    before = content(harness)
    run = harness.start()
    journalled(harness, run)
    harness.hit(hit_run.Point(number=0, victim="worker", changed=False, after=0.0), run)
    assert content(harness) == before
    assert _leftovers(harness) == []


def test_a_living_run_is_left_alone(harness: hit_run.Harness) -> None:
    run = harness.start()
    journalled(harness, run)
    code, output, _ = harness.restore()
    assert code == 0
    assert "is alive: nothing of it is touched" in output
    assert run.wait(WITHIN) == 0, (harness.folder / "run.log").read_text()


def test_while_another_run_holds_the_lock_nothing_is_put_back(harness: hit_run.Harness) -> None:
    run = harness.start()
    journalled(harness, run)
    harness.hit(hit_run.Point(number=0, victim="all", changed=False, after=0.0), run)
    before = harness.open_entries()
    timings = lock_timings(stale=2.0, wait=5.0, poll_every=0.1)
    lock = RunLock(
        harness.kube, Ownership("other"), timings, tell=print, life=lambda lease: Life.DEAD
    )
    lock.acquire()
    try:
        code, output, _ = harness.restore()
        assert code == 7
        assert re.search(
            r"^ERROR: run other of .* has the run lock .* and is alive; wait for it to end$",
            output,
            re.M,
        )
        assert harness.open_entries() == before > 0
        lock.check()
    finally:
        lock.release()
    assert harness.restore()[0] == 0
    assert _leftovers(harness) == []


def test_a_journal_that_cannot_be_read_is_named_and_keeps_no_other_from_being_put_back(
    harness: hit_run.Harness,
) -> None:
    before = content(harness)
    run = harness.start()
    journalled(harness, run)
    harness.hit(hit_run.Point(number=0, victim="all", changed=False, after=0.0), run)
    newer = {
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"1": '{"key": "1", "act": "patch", "why": "x", "new": 1}'},
        "metadata": {
            "name": "journal-newer", "namespace": SYSTEM_NAMESPACE, "labels": {"calico-conformance/journal": "true"},
        },
    }  # fmt: skip
    Changes(harness.kube, Ownership("newer")).create(newer, "a test", foreign=True)
    code, output, _ = harness.restore()
    assert content(harness) == before
    assert code == 6
    assert (
        "run newer: its journal: ConfigMap calico-conformance-system/journal-newer: entry 1 cannot be read"
        in output
    )
    assert "Traceback" not in output
    harness.lab.kubectl("delete", "namespace", SYSTEM_NAMESPACE)


def test_planted_secrets_appear_in_nothing_that_a_run_writes(
    harness: hit_run.Harness, tmp_path: Path
) -> None:
    harness.lab.kubectl(
        "create",
        "secret",
        "generic",
        "planted",
        "-n",
        "calico-system",
        f"--from-literal=key={PASSWORD}",
    )
    harness.lab.kubectl(
        "create", "secret", "docker-registry", "pull", "-n", "default", "--docker-server=registry.example",
        "--docker-username=u", f"--docker-password={PASSWORD}",
    )  # fmt: skip
    content = yaml.safe_load(harness.lab.kubeconfig.read_text())
    own = content["users"][0]["user"]["token"]
    content["users"].append(
        {"name": "other", "user": {"token": TOKEN, "password": PASSWORD, "username": "u"}}
    )
    named = tmp_path / "kubeconfig"
    named.write_text(yaml.safe_dump(content))
    reports = tmp_path / "reports"
    arguments = [
        *(word for word in harness.command() if not word.startswith(("--kubeconfig", "--report-dir"))),
        f"--kubeconfig={named}", f"--report-dir={reports}", "--image-pull-secret=pull",
        "--allow-cluster-disruptive", "-n", "2", "--log-level=DEBUG", "-s", "-v",
    ]  # fmt: skip
    run = subprocess.Popen(
        arguments,
        cwd=harness.project,
        env=harness.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    stored = []
    while run.poll() is None:
        stored += [json.dumps(journal) for journal in journals(harness.kube)]
        time.sleep(0.2)
    output = run.communicate(timeout=WITHIN)[0]
    assert run.returncode == 0, output.decode()
    written = {
        path: path.read_bytes()
        for path in reports.rglob("*")
        if path.is_file() and not path.is_symlink()
    }
    assert stored
    assert any("transcript" in path.name for path in written)
    planted = [
        TOKEN,
        PASSWORD,
        own,
        *(base64.b64encode(item.encode()).decode() for item in (TOKEN, PASSWORD, own)),
    ]
    everything = {
        "output": output,
        "journals": "\n".join(stored).encode(),
        **{str(p): data for p, data in written.items()},
    }
    assert [
        name for name, data in everything.items() for item in planted if item.encode() in data
    ] == []


def content(harness: hit_run.Harness) -> tuple[Any, list[Any]]:
    """What the suite changes: Felix's settings and nodes."""
    felix = harness.kube.get(FELIX.api_version, FELIX.kind, FELIX.name)
    nodes = [
        (obj["spec"], obj["metadata"].get("annotations"))
        for obj in harness.kube.objects("v1", "Node")
    ]
    return (felix["spec"], felix["metadata"].get("annotations")), nodes


def _leftovers(harness: hit_run.Harness) -> list[Leftovers]:
    return leftovers(harness.kube)
