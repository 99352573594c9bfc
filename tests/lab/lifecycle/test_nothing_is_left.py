# SPDX-License-Identifier: Apache-2.0
"""However a lab ends, and whoever started it, it leaves no process, namespace, mount or link."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from hybridlab.kernel import libnftables
from tests.lab.lab_process import RunningLab, running_lab
from tests.lab.lifecycle import traces
from tests.lab.lifecycle.unprivileged import Unprivileged, unprivileged_launcher

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: real, namespace: default}
spec:
  containers:
  - {name: python, image: "python:3-alpine", command: [python3, -c, "import time; time.sleep(3600)"]}
  terminationGracePeriodSeconds: 0
"""


@pytest.fixture(params=["as this user", "as an ordinary user"])
def user(request: pytest.FixtureRequest) -> Iterator[Unprivileged | None]:
    """None: as whoever runs the tests.  Otherwise how to start an interpreter as an unprivileged uid."""
    if request.param == "as this user":
        yield None
        return
    if os.getuid() != 0:
        pytest.skip("not started as root: the other case already runs as an ordinary user")
    # Not below pytest's own directory: every pytest that starts closes that one to other users again.
    directory = Path(tempfile.mkdtemp(prefix="hybridlab-unprivileged-"))
    try:
        found = unprivileged_launcher(directory)
        if isinstance(found, str):
            if os.environ.get("CI") == "true":
                pytest.fail(f"the gate must run this as an ordinary user too, but {found}")
            pytest.skip(found)
        yield found
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def start(user: Unprivileged | None, tmp_path: Path) -> Callable[[], object]:
    def started() -> object:
        if user is None:
            return running_lab(tmp_path)
        return running_lab(user.directory, launcher=user.launcher, environment=user.environment)

    return started


def lab_with_a_real_process(lab: RunningLab) -> traces.Traces:
    """A pod with a process of its own, so that there is more to leave behind than labd."""
    if shutil.which("kubectl"):
        lab.kubectl("apply", "-f", "-", stdin=POD)
        lab.kubectl("wait", "--for=condition=Ready", "pod/real", "--timeout=20s")
    return traces.of(lab.process.pid)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_a_signal_ends_a_lab_without_traces(start: Callable[[], object], number: int) -> None:
    with start() as lab:  # type: ignore[attr-defined]
        found = lab_with_a_real_process(lab)
        assert lab.stop(number) == 0
        assert found.left() == []


@pytest.mark.parametrize("victim", ["up", "waiter", "labd"])
def test_killing_any_process_of_a_lab_leaves_no_traces(
    start: Callable[[], object], victim: str
) -> None:
    with start() as lab:  # type: ignore[attr-defined]
        found = lab_with_a_real_process(lab)
        assert {"up", "waiter", "labd"} <= set(found.processes.values())
        pid = next(pid for pid, role in found.processes.items() if role == victim)
        os.kill(pid, signal.SIGKILL)
        code = lab.process.wait(timeout=20)
        assert code == (-signal.SIGKILL if victim == "up" else 7)
        assert found.left() == []


def test_labd_has_no_way_out_of_its_namespaces(start: Callable[[], object]) -> None:
    with start() as lab:  # type: ignore[attr-defined]
        found = traces.of(lab.process.pid)
        labd = next(pid for pid, role in found.processes.items() if role == "labd")
        links = [
            line.split(":")[0].strip()
            for line in Path(f"/proc/{labd}/net/dev").read_text().splitlines()[2:]
        ]
        assert links == ["lo"]


@pytest.fixture
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the name of a socket has room."""
    return tmp_path_factory.mktemp("r")


def test_a_lab_that_cannot_get_a_user_namespace_says_what_to_allow(
    tmp_path: Path, short: Path
) -> None:
    if shutil.which("unshare") is None:
        pytest.skip("unshare (util-linux) is not on the PATH")
    limited = 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"'
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "sh", "-c", limited, "sh", *_up(tmp_path)],
        capture_output=True, text=True, timeout=60, check=False, env=_apart(short),
    )  # fmt: skip
    assert done.returncode == 7, done.stderr
    assert "user.max_user_namespaces" in done.stderr


def test_a_lab_without_libnftables_says_how_to_get_it(tmp_path: Path, short: Path) -> None:
    if shutil.which("unshare") is None:
        pytest.skip("unshare (util-linux) is not on the PATH")
    loaded = "from hybridlab.kernel import libnftables; libnftables.load(); print(open('/proc/self/maps').read())"
    maps = subprocess.run(
        [sys.executable, "-c", loaded], capture_output=True, text=True, check=True
    ).stdout
    found = {line.split()[-1] for line in maps.splitlines() if "libnftables" in line}
    found |= {
        str(path) for path in libnftables.FETCHED.glob(libnftables.LIBRARY)
    }  # beside the system's, too
    hidden = "".join(f'mount --bind /dev/null "{library}" && ' for library in found) + 'exec "$@"'
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", hidden, "sh", *_up(tmp_path)],
        capture_output=True, text=True, timeout=60, check=False, env=_apart(short),
    )  # fmt: skip
    assert done.returncode == 7, done.stderr
    assert "hybridlab fetch-nftables" in done.stderr


def _apart(directory: Path) -> dict[str, str]:
    """The environment of one who is root in a namespace of users, and is not to meet the labs of the real one."""
    return {**os.environ, "TMPDIR": str(directory)}


def _up(directory: Path) -> Sequence[str]:
    return [sys.executable, "-m", "hybridlab", "up", "--kubeconfig", str(directory / "kubeconfig")]
