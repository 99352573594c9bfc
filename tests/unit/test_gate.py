# SPDX-License-Identifier: Apache-2.0
"""``.ci/run``: the README's command as a newcomer types it, in a clone that is removed however
the gate ends."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

GATE = Path(__file__).parents[2] / ".ci" / "run"
MAKEFILE = """\
conformance:
\t@echo "uid $$(id -u) of $$(stat -c %u .)'s folder, limit $$(ulimit -Sn), home $$HOME, temporary $$TMPDIR, in $$PWD"
\t@touch "$$HOME/mine" "$$TMPDIR/mine" && git rev-parse HEAD && git status --porcelain && cat state
\t@mkdir -p reports && echo told >reports/told
\t@$(CONFORMANCE)
test check-powershell check-runs check-false-alarms check-detection-gate:
\t@echo "ran $@ as $$(id -u), limit $$(ulimit -Sn), in $$PWD"
"""
as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with the gate and a Makefile that reports how it was started; a change is not committed."""
    folder = tmp_path / "checkout"
    (folder / ".ci").mkdir(parents=True)
    shutil.copy(GATE, folder / ".ci" / "run")
    (folder / "Makefile").write_text(MAKEFILE)
    (folder / "state").write_text("committed\n")
    for command in (
        "init -q",
        "add .",
        "-c user.name=a -c user.email=a@example.com commit -qm one",
    ):
        subprocess.run(["git", *command.split()], cwd=folder, check=True)
    (folder / "state").write_text("changed\n")
    return folder


@pytest.fixture
def temporary(tmp_path: Path) -> Iterator[Path]:
    """TMPDIR of the gate: root's alone, and with a long name, as pytest's own folders are."""
    folder = tmp_path / "temporary"
    folder.mkdir(mode=0o700)
    yield folder
    assert (list(folder.iterdir()), list(clones_of(tmp_path))) == ([], []), "the clone is left"


def clones_of(folder: Path) -> Iterator[Path]:
    """Yield the gate's folders in /tmp that hold a clone of a repository below ``folder``."""
    for path in Path("/tmp").glob("tmp.*"):
        with suppress(OSError):  # it may just be removed
            if str(folder) in (path / "clone" / ".git" / "config").read_text():
                yield path


def gate(
    checkout: Path, temporary: Path, conformance: str, **environment: str
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [checkout / ".ci" / "run"],
        env={**os.environ, "TMPDIR": str(temporary), "CONFORMANCE": conformance, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.fixture
def commands() -> Iterator[Path]:
    """A folder with all commands of the PATH but pwsh, which everybody can read."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        for place in map(Path, os.environ["PATH"].split(os.pathsep)):
            for command in place.iterdir() if place.is_dir() else ():
                with suppress(FileExistsError):
                    if command.name != "pwsh":
                        (folder / command.name).symlink_to(command)
        yield folder


def limits(out: str) -> dict[str, int]:
    """Map each step to its limit in minutes, to the nearest."""
    found = re.findall(r"^=== make (\S+).* \(limit: (\d+) min (\d+) s\) ===$", out, re.MULTILINE)
    return {name: round(int(minutes) + int(seconds) / 60) for name, minutes, seconds in found}


def test_the_steps_own_minutes_are_eighty() -> None:
    own = re.findall(r"^ *step (\d+) ", GATE.read_text(encoding="utf-8"), re.MULTILINE)
    assert (len(own), sum(map(int, own))) == (6, 80)


PWSH = "#!/bin/sh\nexit 0\n"


@pytest.mark.parametrize("where", ["on the PATH", "to unpack beside the checkout"])
def test_the_tests_that_execute_powershell_are_a_step_where_there_is_one(
    checkout: Path, temporary: Path, commands: Path, where: str
) -> None:
    path = str(commands)
    folder = checkout.parent / "powershell"
    folder.mkdir()
    (folder / "pwsh").write_text(PWSH)
    (folder / "pwsh").chmod(0o755)
    if where == "on the PATH":
        path = f"{folder}:{path}"
    else:
        tool = checkout.parent / "shared" / "tools" / "pwsh" / "install"
        tool.parent.mkdir(parents=True)
        tool.write_text(f"#!/bin/sh\necho {folder}\n")
        tool.chmod(0o755)
    process = gate(checkout, temporary, "true", PATH=path)
    out = process.communicate(timeout=60)[0]
    assert process.returncode == 0, out
    assert re.findall(r"^ran (\S+) ", out, re.MULTILINE)[:2] == ["test", "check-powershell"]
    assert "check-powershell" in limits(out)
    assert out.splitlines()[-1] == "=== the gate is green ==="


def test_every_step_runs_and_the_first_has_the_limit_of_a_login(
    checkout: Path, temporary: Path, commands: Path
) -> None:
    process = gate(checkout, temporary, "true", PATH=str(commands))
    out = process.communicate(timeout=60)[0]
    assert process.returncode == 0, out
    assert "SKIPPED: there is no pwsh on the PATH" in out.splitlines()[-1]
    assert re.search(r"^uid \d+ of \d+'s folder, limit 1024, ", out, re.MULTILINE), out
    ran = re.findall(r"^ran (\S+) as (\d+), limit (\d+), in (.*)$", out, re.MULTILINE)
    assert [name for name, *_ in ran] == [
        "test",
        "check-runs",
        "check-false-alarms",
        "check-detection-gate",
    ]
    soft = subprocess.run(
        ["bash", "-c", "ulimit -Sn"], capture_output=True, text=True, check=True
    ).stdout.strip()
    assert {(uid, limit, where) for _, uid, limit, where in ran} == {
        (str(os.getuid()), soft, str(checkout))
    }
    assert limits(out) == {
        "conformance": 14,
        "test": 38,
        "check-runs": 55,
        "check-false-alarms": 64,
        "check-detection-gate": 78,
    }, "a step has what the steps before it left, and six minutes more"


@as_root
def test_root_starts_it_as_a_user_that_nobody_is_in_a_clone_of_the_commit(
    checkout: Path, temporary: Path
) -> None:
    out = gate(checkout, temporary, "true").communicate(timeout=60)[0]
    found = re.search(
        r"^uid (\d+) of \1's folder, limit 1024, home (\S+), temporary (\S+), in (\S+)$",
        out,
        re.MULTILINE,
    )
    assert found, out
    uid, home, folder, where = found.groups()
    assert int(uid) >= 61184
    assert not where.startswith(str(checkout))
    assert [Path(home).parent, Path(folder).parent] == [Path(where), Path(where)]
    assert len(folder) < 60, "a lab's socket has no room in it"
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=checkout, capture_output=True, text=True, check=True
    ).stdout
    assert f"{head}committed\n" in out, (
        "it is the commit, and what the gate puts there changes nothing of it"
    )


@as_root
def test_what_fails_ends_the_gate_and_leaves_its_reports_and_nothing_else(
    checkout: Path, temporary: Path
) -> None:
    process = gate(checkout, temporary, "exit 7")
    out = process.communicate(timeout=60)[0]
    assert process.returncode != 0
    assert "ran test" not in out
    assert (checkout / "reports" / "newcomer" / "told").read_text() == "told\n"


@as_root
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_the_step_that_runs_and_every_process_of_the_user(
    checkout: Path, temporary: Path, number: int
) -> None:
    process = gate(checkout, temporary, "setsid sleep 50 & echo it-sleeps; sleep 50")
    assert process.stdout
    out: list[str] = []
    while not out or "it-sleeps" not in out[-1]:
        out.append(process.stdout.readline())
    found = re.search(r"uid (\d+)", "".join(out))
    assert found
    begun = time.monotonic()
    process.send_signal(number)
    process.communicate(timeout=30)
    assert process.returncode == 128 + number
    assert time.monotonic() - begun < 20
    left = subprocess.run(
        ["ps", "-o", "stat=,args=", "-U", found[1]], capture_output=True, text=True, check=False
    )
    assert [line for line in left.stdout.splitlines() if not line.startswith("Z")] == []
