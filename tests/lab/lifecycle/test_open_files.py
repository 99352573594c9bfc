# SPDX-License-Identifier: Apache-2.0
"""A lab with an ordinary login's limit of open files: its own files, those of programs in its
pods, and a machine with too few."""

from __future__ import annotations

import re
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lab.lab_process import running_lab
from tests.lab.lifecycle import traces

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: real, namespace: default}
spec:
  containers:
  - {name: main, image: "busybox:1.37.0", command: [sh, -c, "ulimit -Sn; ulimit -Hn; sleep 3600"]}
  terminationGracePeriodSeconds: 0
"""
OPENS_MANY = """
import os, sys
for _ in range(1000):
    os.set_inheritable(os.dup(0), True)
os.execv(sys.argv[1], sys.argv[1:])
"""
needs_kubectl = pytest.mark.skipif(
    shutil.which("kubectl") is None, reason="kubectl is not on the PATH"
)


def login(soft: int, hard: int | None = None) -> list[str]:
    """An interpreter with the limits of a login."""
    limit = f"ulimit -Sn {soft}" + (f" && ulimit -Hn {hard}" if hard else "")
    return ["sh", "-c", f'{limit} && exec "$0" "$@"', sys.executable]


def open_in(pid: int) -> list[int]:
    return sorted(int(path.name) for path in Path(f"/proc/{pid}/fd").iterdir())


@needs_kubectl
def test_the_labs_processes_raise_their_limit_and_programs_in_pods_have_the_logins(
    tmp_path: Path,
) -> None:
    hard = min(resource.getrlimit(resource.RLIMIT_NOFILE)[1], 65_536)
    with running_lab(tmp_path, launcher=login(1000)) as lab:
        roles = traces.of(lab.process.pid).processes
        of_lab = {
            role: resource.prlimit(pid, resource.RLIMIT_NOFILE)[0] for pid, role in roles.items()
        }
        assert (of_lab["up"], of_lab["labd"]) == (hard, hard)
        lab.kubectl("apply", "-f", "-", stdin=POD)
        lab.kubectl("wait", "--for=condition=Ready", "pod/real", "--timeout=20s")
        both = f"1000\n{resource.getrlimit(resource.RLIMIT_NOFILE)[1]}\n"
        assert lab.kubectl("logs", "real").stdout == both
        assert (
            lab.kubectl("exec", "real", "--", "sh", "-c", "ulimit -Sn; ulimit -Hn").stdout == both
        )


def test_nftables_sockets_have_low_numbers_whatever_is_open(tmp_path: Path) -> None:
    """libnftables selects: with 1,003 descriptors open before the lab's first one, its nodes would abort labd."""
    launcher = [sys.executable, "-c", OPENS_MANY, sys.executable]
    with running_lab(tmp_path, launcher=launcher) as lab:
        roles = traces.of(lab.process.pid).processes
        labd = next(pid for pid, role in roles.items() if role == "labd")
        assert open_in(labd)[-1] > 1024


def test_a_hard_limit_that_is_too_low_is_one_line_with_both_numbers(tmp_path: Path) -> None:
    done = subprocess.run(
        [*login(256, 256), "-m", "hybridlab", "up", "--kubeconfig", str(tmp_path / "kubeconfig")],
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert done.returncode == 7
    assert done.stdout == ""
    assert re.fullmatch(
        r"hybridlab: this machine allows too few open files: .* 6 nodes needs up to [\d,]+, but the hard limit is 256; .*\n",
        done.stderr,
    )


@needs_kubectl
@pytest.mark.parametrize("role", ["up", "labd"])
def test_a_lab_that_can_open_no_more_files_says_so_once_and_ends(tmp_path: Path, role: str) -> None:
    with running_lab(tmp_path) as lab:
        roles = traces.of(lab.process.pid).processes
        pid = next(pid for pid, name in roles.items() if name == role)
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (open_in(pid)[-1] + 1, hard))
        lab.kubectl("apply", "-f", "-", stdin=POD, check=False)
        for _ in range(20):
            if lab.process.poll() is not None:
                break
            lab.kubectl("exec", "real", "--", "true", check=False)
        assert lab.process.wait(timeout=10) == 7
        assert lab.process.stderr
        said = lab.process.stderr.read()
    assert re.findall(r".*open files.*", said) == [
        line for line in said.splitlines() if line.startswith("hybridlab: ")
    ]
    assert said.startswith("hybridlab: this machine allows too few open files: a process has all ")
    assert len(said) < 2000
