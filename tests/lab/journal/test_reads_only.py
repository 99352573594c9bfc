# SPDX-License-Identifier: Apache-2.0
"""A command that only reports sends no write and no exec, with any other options and whatever dead
runs have left."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.journal import Journal, Journalled, liveness
from conformance.kube.access import from_kubeconfig
from conformance.kube.changes import Changes
from conformance.kube.client import Kube
from conformance.kube.ownership import Ownership
from conformance.model.change import ObjectRef
from tests.lab.api_proxy import ApiProxy, Asked, api_proxy
from tests.lab.lab_process import running_lab
from tests.reliability.hit_run import environment
from tests.reliability.source import ROOT

pytestmark = [pytest.mark.xdist_group("reads-only"), pytest.mark.whole_run]
FELIX = ObjectRef(api_version="projectcalico.org/v3", kind="FelixConfiguration", name="default")
SUITES = ("suites/vxlan", "suites/resets")
DISRUPTIVE = ("--allow-disruptive", "--allow-cluster-disruptive")
PUT_BACK = "to put back: patch FelixConfiguration default"


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiProxy]:
    """Before a lab with the journal of a dead run: it lets nothing pass but reading."""
    folder = tmp_path_factory.mktemp("lab")
    alive = folder / "calico-conformance-dead1" / "alive"
    alive.parent.mkdir()
    alive.touch()
    dead = Ownership("dead1", "main", liveness.sign(alive))
    with running_lab(folder, "--profile", "small") as lab, api_proxy(lab.kubeconfig, folder) as one:
        kube = Kube(from_kubeconfig(lab.kubeconfig))
        change = Journalled(Changes(kube, dead), Journal(kube, dead, within=5.0), {}, lambda: None)
        with alive.open() as held:  # nobody takes it for dead before it is
            fcntl.flock(held, fcntl.LOCK_SH)
            change.patch(FELIX, {"spec": {"vxlanVNI": 4097}}, "a test")
        one.rule = lambda asked: 0 if asked.reads else 403
        yield one
        kube.close()


def pytest_(proxy: ApiProxy, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    proxy.refused.clear()
    command = [
        sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--kubeconfig={proxy.kubeconfig}",
        f"--report-dir={folder / 'reports'}", *arguments,
    ]  # fmt: skip
    return subprocess.run(
        command,
        cwd=ROOT,
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


def test_the_proxy_tells_reading_from_writing() -> None:
    review = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    assert all(
        Asked(*asked, upgrade=False).reads
        for asked in (("GET", "/api/v1/pods?watch=true"), ("POST", review))
    )
    writes = [(verb, "/api/v1/namespaces") for verb in ("POST", "PUT", "PATCH", "DELETE")]
    assert not any(Asked(*asked, upgrade=False).reads for asked in writes)
    assert not Asked("GET", "/api/v1/namespaces/a/pods/b/exec?command=ls", upgrade=True).reads


@pytest.mark.parametrize(
    "flags",
    [
        ("--plan", "--allow-disruptive"),
        ("--plan", "--allow-cluster-disruptive", "-n", "2", "--keep"),
        ("--plan", "--dry-run", *DISRUPTIVE, "--smoke"),
        ("--plan", *DISRUPTIVE, "-k", "vni", "--capture-packets", "--every-node", "-v"),
        ("--dry-run", *DISRUPTIVE, "-n", "2"),
        ("--dry-run", "--disruptive-node=windows", *DISRUPTIVE, "--keep", "--delete-emptydir-data"),
        ("--dry-run",),
    ],
    ids=" ".join,
)
def test_a_run_that_only_says_what_it_would_do_names_leftovers_and_changes_nothing(
    proxy: ApiProxy, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    done = pytest_(proxy, tmp_path, *flags, *SUITES)
    assert done.returncode == 0, done.stdout + done.stderr
    assert proxy.refused == []
    assert "leftovers: run dead1, begun " in done.stderr
    assert f"run dead1: {PUT_BACK}" in done.stderr


@pytest.mark.parametrize(
    ("flags", "code", "said"),
    [
        (("--plan",), 7, "run dead1, begun"),
        (("--list-claims", "--restore", *DISRUPTIVE), 0, "VXLAN-9"),
        (("--list-images", "--janitor", *DISRUPTIVE), 0, "server"),
        (("--collect-only", "-q", *DISRUPTIVE), 0, "test_vni"),
        (("--janitor", "--dry-run"), 0, PUT_BACK),
        (("--janitor", "--dry-run", *DISRUPTIVE), 0, PUT_BACK),
        (("--janitor", "--dry-run", "--run", "dead1", "--keep"), 0, PUT_BACK),
        (("--janitor", "--restore", "--dry-run"), 4, "pytest --janitor --dry-run"),
        (("--restore", "--plan"), 4, "pytest --janitor --dry-run"),
        (("--janitor", "--plan", "--allow-disruptive"), 4, "pytest --janitor --dry-run"),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, tuple) else "",
)
def test_lists_and_the_janitors_dry_run_change_nothing(
    proxy: ApiProxy, tmp_path: Path, flags: tuple[str, ...], code: int, said: str
) -> None:
    done = pytest_(proxy, tmp_path, *flags, *SUITES)
    assert done.returncode == code, done.stdout + done.stderr
    assert proxy.refused == []
    assert said in done.stdout + done.stderr
