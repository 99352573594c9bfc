# SPDX-License-Identifier: Apache-2.0
"""The lab's processes take the open files they need, give programs the login's limit, and say what is too low."""

from __future__ import annotations

import errno
import resource
import subprocess
import sys

import pytest

from hybridlab.kernel import open_files

PROGRAM = """
import resource, subprocess, sys
from hybridlab.kernel import open_files
open_files.raise_limit()
limits = resource.getrlimit(resource.RLIMIT_NOFILE)
child = ["sh", "-c", "ulimit -Sn; ulimit -Hn"]
out = subprocess.run(child, capture_output=True, text=True, preexec_fn=open_files.restore_limit).stdout
print(*limits, *out.split())
"""


def limits(soft: int, hard: int) -> list[int]:
    """Soft and hard limit of a process of the lab that a login with these started, then those of its child."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=limit,
    )
    return [int(word) for word in done.stdout.split()]


@pytest.mark.parametrize(("soft", "hard"), [(1024, 4096), (300, 300), (256, 1024)])
def test_a_process_takes_the_hard_limit_and_gives_its_children_the_logins(
    soft: int, hard: int
) -> None:
    assert limits(soft, hard) == [hard, hard, soft, hard]


def test_it_takes_no_more_than_it_can_use(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[tuple[int, int]] = []
    monkeypatch.setattr(open_files, "_login", (1024, 70_000))
    monkeypatch.setattr(resource, "setrlimit", lambda which, limit: taken.append(limit))
    open_files.raise_limit()
    assert taken == [(65_536, 70_000)]


def test_a_lab_whose_hard_limit_is_too_low_is_refused_with_both_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    needed = open_files.FOR_A_RUN + 200 * open_files.FOR_A_NODE
    monkeypatch.setattr(open_files, "_login", (256, needed - 1))
    line = open_files.lack(200)
    assert line.startswith(
        f"{open_files.LACK}: a process of a lab with 200 nodes needs up to {needed:,}"
    )
    assert f"the hard limit is {needed - 1:,}; " in line
    monkeypatch.setattr(open_files, "_login", (256, needed))
    assert open_files.lack(200) == ""


class Wrapped(Exception):
    errno = errno.EMFILE


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_an_error_that_comes_of_it_is_told_whatever_it_was_wrapped_in(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(open_files, "_listeners", [told.append])
    wrapped = RuntimeError("exec failed")
    wrapped.__cause__ = OSError(number, "as the kernel says")
    assert open_files.notice(wrapped)
    assert open_files.notice(Wrapped())
    assert [line.startswith(open_files.LACK) for line in told] == [True, True]
    assert ("fs.file-max" in told[0]) == (number == errno.ENFILE)


def test_other_errors_are_none_of_its(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_files, "_listeners", [pytest.fail])
    assert not open_files.notice(OSError(errno.ENOENT, "no such file"))
    assert not open_files.notice(None)
