# SPDX-License-Identifier: Apache-2.0
"""``calico-conformance fetch`` on a lab: archives arrive complete from a pod's holder, or not at
all."""

from __future__ import annotations

import gzip
import importlib
import io
import json
import random
import subprocess
import sys
import tarfile
import threading
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from conformance.cli import main
from conformance.jobs import fetch
from conformance.jobs.objects import HOLDER, JUDGE
from conformance.kube.ownership import RUNNER_NAMESPACE
from tests.golden.reports import texts
from tests.lab.api_proxy import ApiProxy, api_proxy
from tests.lab.lab_process import RunningLab, running_lab

pytestmark = [pytest.mark.whole_run, pytest.mark.xdist_group("fetch")]
IMAGE = "python:3.13.1-alpine3.21"
"""The lab's image with Python, in the place of the suite's, which its registry does not have."""
SUITE = "/opt/suite"
NEEDED = ("tenacity", "yaml")
"""The packages that the holder's program imports."""
PROGRAM = """#!/usr/local/bin/python3
import sys
from conformance.cli import main
sys.exit(main())
"""
DAMAGES = """#!/usr/local/bin/python3
import sys
from pathlib import Path
from conformance.jobs import holder
for number, line in enumerate(holder.sent(Path(sys.argv[3]))):
    print((line[::-1] if number == 2 else line).decode())
"""
STOPS = """#!/usr/local/bin/python3
import itertools, sys, time
from pathlib import Path
from conformance.jobs import holder
for line in itertools.islice(holder.sent(Path(sys.argv[3])), 20):
    print(line.decode(), flush=True)
Path("/results/sent-a-part").touch()
time.sleep(600)
"""
RUN = "2026-11-29T10-00-00Z-0a1b2c"
OTHER_FILES = random.Random(59).randbytes(1_500_000)
"""Attached packets, which cannot be compressed, so that the archive has more than 30 lines."""
SOON = 180.0
"""s.  Only what hangs is caught."""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLab]:
    with running_lab(tmp_path_factory.mktemp("lab")) as one:
        yield one


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "LOOK_EVERY", 0.2)


@pytest.fixture(scope="module")
def suite() -> bytes:
    """The suite and what its holder needs, as an archive for the container."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name in ("conformance", *NEEDED):
            folder = Path(str(importlib.import_module(name).__file__)).parent
            archive.add(folder, f"lib/{name}", filter=_without_bytecode)
        for name, text in (("bin/calico-conformance", PROGRAM), ("ready", "")):
            _add(archive, name, text.encode())
    return packed.getvalue()


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    member.mode = 0o755
    archive.addfile(member, io.BytesIO(content))


def _without_bytecode(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if "__pycache__" in member.name else member


@pytest.fixture(scope="module")
def results() -> bytes:
    """The folder of a run, as an archive for the container: a stored report and what tests left."""
    report = gzip.decompress((texts.FOLDER / "healthy.json.gz").read_bytes())
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, content in (("conformance.json", report), ("attachments/seen.pcap", OTHER_FILES)):
            _add(archive, f"{RUN}/{name}", content)
    return packed.getvalue()


@dataclass
class JobPod:
    """The pod of a Job, which the lab's controllers do not make; its judge ends when it is let."""

    lab: RunningLab
    job: str
    kubeconfig: Path
    options: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.job}-x"

    def make(self, code: int, suite: bytes) -> None:
        printed = subprocess.run(
            [
                sys.executable,
                "-m",
                "conformance.cli",
                "job",
                f"--image={IMAGE}",
                f"--name={self.job}",
                *self.options,
            ],
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        objects, _, job = printed.rpartition("---\n")
        self.lab.kubectl("apply", "-f", "-", stdin=objects)
        self.lab.kubectl("apply", "-f", "-", stdin=json.dumps(self._pod(yaml.safe_load(job), code)))
        where = f"pod/{self.name}"
        self.lab.kubectl("wait", "-n", RUNNER_NAMESPACE, where, "--for=condition=Ready")
        self.unpack(SUITE, suite)

    def _pod(self, job: Any, code: int) -> Any:
        """Return the pod of the Job's template, with programs of the lab's image."""
        template = job["spec"]["template"]
        spec = template["spec"]
        containers = {container["name"]: container for container in spec["containers"]}
        waits = f"until test -e /results/{self.name}.ended; do sleep 0.1; done"
        containers[JUDGE]["command"] = ["sh", "-c", f"{waits}; exit {code}"]
        holder = containers[HOLDER]
        begins = f'until test -e {SUITE}/ready; do sleep 0.1; done; exec calico-conformance "$@"'
        holder["command"] = ["sh", "-c", begins, "holder"]
        holder["env"] += [
            {"name": "PATH", "value": f"{SUITE}/bin:/usr/local/bin:/usr/bin:/bin"},
            {"name": "PYTHONPATH", "value": f"{SUITE}/lib"},
        ]
        holder["volumeMounts"].append({"name": "suite", "mountPath": SUITE})
        spec["volumes"].append({"name": "suite", "emptyDir": {}})
        labels = {**template["metadata"]["labels"], "job-name": self.job}
        metadata = {"name": self.name, "namespace": RUNNER_NAMESPACE, "labels": labels}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    def run(self, *command: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        """Run a command in the holder's container."""
        program = ["kubectl", f"--kubeconfig={self.lab.kubeconfig}", "-n", RUNNER_NAMESPACE, "exec"]
        where = [*(["-i"] if stdin else []), self.name, "-c", HOLDER, "--"]
        return subprocess.run(
            [*program, *where, *command],
            input=stdin,
            capture_output=True,
            timeout=SOON,
            check=False,
        )

    def unpack(self, folder: str, archive: bytes) -> None:
        reads = "tarfile.open(fileobj=sys.stdin.buffer, mode='r|').extractall(sys.argv[1])"
        done = self.run("python3", "-c", f"import sys, tarfile; {reads}", folder, stdin=archive)
        assert done.returncode == 0, done.stderr

    def replace_program(self, text: str) -> None:
        place = f"{SUITE}/bin/calico-conformance"
        writes = f"rm {place}; cat > {place}; chmod 755 {place}"
        done = self.run("sh", "-c", writes, stdin=text.encode())
        assert done.returncode == 0, done.stderr

    def end(self, results: bytes | None) -> None:
        """Let the judge leave its results and end."""
        if results:
            self.unpack(f"/results/{self.name}", results)
        self.run("touch", f"/results/{self.name}.ended")

    def fetch(self, folder: Path, kubeconfig: Path | None = None) -> int:
        folder.mkdir(exist_ok=True)
        where = f"--kubeconfig={kubeconfig or self.kubeconfig}"
        return main(["fetch", where, f"--name={self.job}", f"--to={folder}", "--minutes=5"])

    def holder_state(self) -> Any:
        found = self.lab.kubectl("get", "pod", "-n", RUNNER_NAMESPACE, self.name, "-o", "json")
        (state,) = (
            status["state"]
            for status in json.loads(found.stdout)["status"]["containerStatuses"]
            if status["name"] == HOLDER
        )
        return state

    def ended_holder(self) -> Any:
        """Return the end of the holder, which may be on its way."""
        until = time.monotonic() + SOON
        while "terminated" not in (state := self.holder_state()) and time.monotonic() < until:
            time.sleep(0.2)
        return state.get("terminated")


@pytest.fixture
def pod_of(lab: RunningLab, suite: bytes) -> Iterator[Any]:
    made: list[JobPod] = []

    def make(code: int, *options: str) -> JobPod:
        made.append(JobPod(lab, f"ends-with-{code}-{len(made)}", lab.kubeconfig, options))
        made[-1].make(code, suite)
        return made[-1]

    yield make
    for pod in made:
        lab.kubectl(
            "delete",
            "pod",
            "-n",
            RUNNER_NAMESPACE,
            pod.name,
            "--grace-period=1",
            "--ignore-not-found",
        )


def as_reader(lab: RunningLab, folder: Path) -> Path:
    """Return the kubeconfig of a user with the rights in docs/in-cluster.md, and no other."""
    rules = [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
        {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create", "get"]},
    ]
    metadata = {"name": "fetches", "namespace": RUNNER_NAMESPACE}
    group = "rbac.authorization.k8s.io"
    objects = [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": metadata, "rules": rules},
        {
            "apiVersion": f"{group}/v1", "kind": "RoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": group, "kind": "Role", "name": "fetches"},
            "subjects": [{"kind": "ServiceAccount", **metadata}],
        },
    ]  # fmt: skip
    lab.kubectl("apply", "-f", "-", stdin="---\n".join(map(yaml.safe_dump, objects)))
    token = lab.kubectl("create", "token", "fetches", "-n", RUNNER_NAMESPACE).stdout.strip()
    content = yaml.safe_load(lab.kubeconfig.read_text())
    content["users"][0]["user"] = {"token": token}
    (folder / "reader.yaml").write_text(yaml.safe_dump(content))
    return folder / "reader.yaml"


@pytest.mark.parametrize("code", [1, 6])
def test_an_archive_arrives_whole_with_the_judges_exit_code_and_the_holder_ends(
    pod_of: Any, results: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str], code: int
) -> None:
    pod = pod_of(code)
    reader = as_reader(pod.lab, tmp_path)
    ends = threading.Timer(1.0, pod.end, [results])
    ends.start()
    assert pod.fetch(tmp_path / "to", reader) == code
    ends.join()
    error = capsys.readouterr().err
    assert "judge: running\njudge: terminated" in error
    assert f"the judge ended with exit code {code}\n" in error
    (archive,) = (tmp_path / "to").iterdir()
    assert archive.name == f"{RUN}.zip"
    with zipfile.ZipFile(archive) as read:
        assert read.testzip() is None
        assert read.read(f"{RUN}/attachments/seen.pcap") == OTHER_FILES
        assert json.loads(read.read(f"{RUN}/conformance.json"))["claims"]
    assert pod.ended_holder()["exitCode"] == 0


CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "kept", "namespace": RUNNER_NAMESPACE},
    "spec": {
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": "1Gi"}},
    },
}


def test_a_claim_keeps_the_results_of_all_pods_and_they_can_be_fetched(
    pod_of: Any, lab: RunningLab, results: bytes, tmp_path: Path
) -> None:
    lab.kubectl("create", "namespace", RUNNER_NAMESPACE, check=False)  # if no other test has
    lab.kubectl("apply", "-f", "-", stdin=json.dumps(CLAIM))
    first = pod_of(1, "--volume=kept")
    first.end(results)
    assert first.fetch(tmp_path / "first") == 1
    assert first.ended_holder()["exitCode"] == 0
    lab.kubectl("delete", "pod", "-n", RUNNER_NAMESPACE, first.name, "--grace-period=1")
    second = pod_of(0, "--volume=kept")
    assert second.run("ls", "/results").stdout.decode().split() == [
        first.name,
        f"{first.name}.ended",
    ]
    second.end(results)
    assert second.fetch(tmp_path / "second") == 0
    seen = second.run("ls", f"/results/{first.name}/{RUN}", f"/results/{second.name}/{RUN}").stdout
    assert seen.count(b"conformance.json") == 2
    (archive,) = (tmp_path / "second").iterdir()
    with zipfile.ZipFile(archive) as read:
        assert read.read(f"{RUN}/attachments/seen.pcap") == OTHER_FILES


def test_a_pod_without_its_claim_does_not_start(lab: RunningLab) -> None:
    job = ["job", f"--image={IMAGE}", "--name=no-claim", "--volume=nowhere"]
    printed = subprocess.run(
        [sys.executable, "-m", "conformance.cli", *job], capture_output=True, text=True, check=True
    ).stdout
    objects, _, rest = printed.rpartition("---\n")
    lab.kubectl("apply", "-f", "-", stdin=objects)
    template = yaml.safe_load(rest)["spec"]["template"]
    metadata = {"name": "no-claim", "namespace": RUNNER_NAMESPACE}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
    lab.kubectl("apply", "-f", "-", stdin=json.dumps(pod))
    lab.kubectl(
        "wait", "-n", RUNNER_NAMESPACE, "pod/no-claim", "--timeout=60s",
        "--for=jsonpath={.status.phase}=Pending",
    )  # fmt: skip
    until, events = time.monotonic() + SOON, ""
    while "FailedMount" not in events and time.monotonic() < until:
        time.sleep(0.2)
        events = lab.kubectl("get", "events", "-n", RUNNER_NAMESPACE).stdout
    assert 'persistentvolumeclaim "nowhere" not found' in events
    lab.kubectl("delete", "pod", "-n", RUNNER_NAMESPACE, "no-claim", "--grace-period=1")


def test_what_arrives_damaged_or_in_part_can_be_fetched_again_until_the_holder_has_ended(
    pod_of: Any, results: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pod = pod_of(0)
    pod.end(results)
    to = tmp_path / "to"

    pod.replace_program(DAMAGES)
    assert pod.fetch(to) == 7
    assert "ERROR: the archive arrived damaged: " in capsys.readouterr().err

    pod.replace_program(STOPS)
    with api_proxy(pod.lab.kubeconfig, tmp_path) as gateway:
        goes = threading.Thread(target=_goes_away_after_a_part, args=(pod, gateway))
        goes.start()
        assert pod.fetch(to, gateway.kubeconfig) == 7
        goes.join()
    assert "ERROR: the archive was not sent completely: " in capsys.readouterr().err

    assert list(to.iterdir()) == [], "no part of an archive is left"
    assert "running" in pod.holder_state()
    pod.replace_program(PROGRAM)
    assert pod.fetch(to) == 0
    assert [path.name for path in to.iterdir()] == [f"{RUN}.zip"]
    assert pod.ended_holder()["exitCode"] == 0
    capsys.readouterr()
    assert pod.fetch(tmp_path / "again") == 7
    assert list((tmp_path / "again").iterdir()) == []
    assert (
        "ERROR: container holder has ended, as it does once the results were fetched"
        in capsys.readouterr().err
    )


def _goes_away_after_a_part(pod: JobPod, gateway: ApiProxy) -> None:
    until = time.monotonic() + SOON
    while pod.run("test", "-e", "/results/sent-a-part").returncode and time.monotonic() < until:
        time.sleep(0.2)
    gateway.go_away()


def test_a_killed_judge_without_a_report_leaves_its_exit_code_and_its_holder(
    pod_of: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pod = pod_of(137)
    pod.end(None)
    assert pod.fetch(tmp_path / "to") == 137
    said = capsys.readouterr().err
    assert "the judge ended with exit code 137" in said
    assert f"no run has left a report in /results/{pod.name}" in said
    assert "running" in pod.holder_state()
