# SPDX-License-Identifier: Apache-2.0
"""If nothing can be restored any more, the run names the values that stay, says how to restore
them, and ends soon."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from conformance.journal.store import entries_of, journals
from conformance.kube.access import from_kubeconfig
from conformance.kube.client import Kube
from tests.lab.api_proxy import ApiProxy, api_proxy
from tests.lab.lab_process import running_lab
from tests.reliability.hit_run import TIMINGS, environment
from tests.reliability.source import ROOT

pytestmark = [pytest.mark.xdist_group("no-way-back"), pytest.mark.whole_run]
WITHIN = 180.0
"""Seconds; only a run that hangs is caught."""
ENDS_WITHIN = 60.0
"""Seconds from a token's death to the run's end."""
PROCEDURE = "suites/vxlan/test_vni.py::test_the_documented_procedure_gives_windows_the_new_vni"
"""Its first change of an object is that of the VNI."""
VNI = r"FelixConfiguration default \(projectcalico\.org/v3\): \.spec\.vxlanVNI 4096 -> 4097 stays"


@dataclass
class Bench:
    proxy: ApiProxy
    kube: Kube
    folder: Path

    def start(self, away: str) -> subprocess.Popen[bytes]:
        """VXLAN-10 through the proxy; ``away``: for how long is tried what cannot be put back."""
        timings = yaml.safe_load(TIMINGS.read_text())
        timings["run"] = (timings.get("run") or {}) | {"put_back_away": away, "api_gone": "5 s"}
        (self.folder / "timings.yaml").write_text(yaml.safe_dump(timings))
        command = [
            sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--kubeconfig={self.proxy.kubeconfig}",
            f"--timings={self.folder / 'timings.yaml'}", f"--report-dir={self.folder / 'reports'}",
            "--allow-cluster-disruptive", "-n", "2", PROCEDURE, "suites/resets/test_felix_restart.py",
        ]  # fmt: skip
        with (self.folder / "run.log").open("wb") as log:
            return subprocess.Popen(
                command, cwd=ROOT, env=environment(self.folder), stdin=subprocess.DEVNULL, stdout=log,
                stderr=subprocess.STDOUT,
            )  # fmt: skip

    @property
    def said(self) -> str:
        return (self.folder / "run.log").read_text(errors="replace")

    @property
    def vni(self) -> int:
        return int(
            self.kube.get("projectcalico.org/v3", "FelixConfiguration", "default")["spec"][
                "vxlanVNI"
            ]
        )

    def changed(self, run: subprocess.Popen[bytes]) -> None:
        """Wait until the VNI is changed and noted as such."""
        self.until(
            run, lambda: any(
                entry.state == "done" and entry.target and entry.target.kind == "FelixConfiguration"
                for book in journals(self.kube) for entry in entries_of(book)
            )
        )  # fmt: skip

    def until(self, run: subprocess.Popen[bytes], done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WITHIN
        while not done():
            assert time.monotonic() < deadline, self.said
            assert run.poll() is None, self.said
            time.sleep(0.1)

    def restore(self) -> str:
        """``pytest --restore`` once the way is open again."""
        self.proxy.rule, self.proxy.away = lambda asked: 0, False
        command = [
            sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--kubeconfig={self.proxy.kubeconfig}",
            f"--timings={TIMINGS}", "--restore",
        ]  # fmt: skip
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=environment(self.folder),
            capture_output=True,
            text=True,
            timeout=WITHIN,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert self.vni == 4096
        return done.stdout


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with (
        running_lab(tmp_path, "--profile", "small") as lab,
        api_proxy(lab.kubeconfig, tmp_path) as proxy,
    ):
        kube = Kube(from_kubeconfig(lab.kubeconfig))
        yield Bench(proxy, kube, tmp_path)
        kube.close()


def test_a_token_that_dies_while_the_vni_is_changed(bench: Bench) -> None:
    run = bench.start("15 min")
    bench.changed(run)
    died = time.monotonic()
    bench.proxy.rule = lambda asked: 401
    code = run.wait(WITHIN)
    seconds = time.monotonic() - died
    said = bench.said
    assert code == 6, said
    assert seconds < ENDS_WITHIN, f"{seconds:.0f} s\n{said}"
    assert bench.vni == 4097
    assert re.search(VNI, said), said
    assert f"put back by: pytest --kubeconfig={bench.proxy.kubeconfig} --restore" in said
    # A pod in the making may have been asked for until the credentials were given up.
    putting_back = [
        asked.path
        for asked in bench.proxy.refused
        if asked.method == "PATCH" and "/felixconfigurations/" in asked.path
    ]
    assert len(putting_back) <= 1, putting_back
    bench.restore()


def test_a_network_that_stays_away_while_the_vni_is_changed(bench: Bench) -> None:
    run = bench.start("20 s")
    bench.changed(run)
    bench.proxy.go_away()
    assert run.wait(WITHIN) == 6, bench.said
    said = bench.said
    assert bench.vni == 4097
    tries = (
        r"the API server does not answer; this run tries for up to (1\d|20) s"
        " to restore what it has changed"
    )
    assert re.search(rf"^{tries}: ", said, re.MULTILINE), said
    assert re.search(rf"^\[\d+ s\] {tries}$", said, re.MULTILINE), said
    assert re.search(VNI, said), said
    assert f"put back by: pytest --kubeconfig={bench.proxy.kubeconfig} --restore" in said
    bench.restore()


def test_a_network_that_comes_back_after_the_run_had_given_it_up(bench: Bench) -> None:
    run = bench.start("15 min")
    bench.changed(run)
    bench.proxy.go_away()
    bench.until(run, lambda: "the API server does not answer" in bench.said)
    assert bench.vni == 4097
    bench.proxy.away = False
    assert run.wait(WITHIN) == 6, bench.said
    said = bench.said
    assert "the API server answers again: this run restores what it has changed" in said
    assert bench.vni == 4096
    assert not [entry for book in journals(bench.kube) for entry in entries_of(book) if entry.open]
    assert "not put back" not in said.partition("answers again")[2], said
