# SPDX-License-Identifier: Apache-2.0
"""A program that is named as PowerShell is refused in one line where it is none, or where its
folder shows pods more than itself."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from hybridlab.cli import powershell
from hybridlab.cluster.exits import USAGE, Stop
from hybridlab.runtime.model import PowerShell


def made(folder: Path, text: str) -> str:
    program = folder / "a-pwsh"
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    return str(program)


def names(folder: Path, *lines: object) -> str:
    return made(folder, "\n".join(f"echo '{line}'" for line in lines))


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A wrapper's layout: PowerShell and .NET in two folders."""
    runtime = tmp_path / "net" / "shared" / "Microsoft.NETCore.App" / "10.0.1"
    runtime.mkdir(parents=True)
    (tmp_path / "net" / "dotnet").touch()
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "pwsh.dll").touch()
    return tmp_path


def runtime(folder: Path) -> str:
    return f"{folder}/net/shared/Microsoft.NETCore.App/10.0.1/"


def test_the_two_folders_are_those_that_the_program_names(installed: Path) -> None:
    program = names(installed, installed / "home", runtime(installed), "7.6.9")
    assert powershell.named(program) == PowerShell(
        home=f"{installed}/home", dotnet=f"{installed}/net", version="7.6.9"
    )


def test_a_package_has_its_net_beside_it(installed: Path) -> None:
    (installed / "home" / "pwsh").touch()
    program = names(installed, installed / "home", f"{installed}/home/", "7.4.0")
    assert powershell.named(program) == PowerShell(
        home=f"{installed}/home", dotnet=f"{installed}/home", version="7.4.0"
    )


def test_a_tool_that_starts_another_program_and_outlives_it_is_ended(installed: Path) -> None:
    lines = f"echo {installed}/home; echo {runtime(installed)}; echo 7.6.9"
    program = made(
        installed, f"sh -c '{lines}'; sleep 3600 >/dev/null 2>&1 & echo $! >{installed}/left"
    )
    assert powershell.named(program).version == "7.6.9"
    pid = int((installed / "left").read_text())
    deadline = time.monotonic() + 5
    while Path(f"/proc/{pid}").exists() and "Z" not in Path(f"/proc/{pid}/stat").read_text():
        assert time.monotonic() < deadline, "what it started is left"


@pytest.mark.parametrize("folder", ["/", "/usr", "/usr/lib", "/etc", "/root", "/home", "~"])
@pytest.mark.parametrize("which", ["home", "net"])
def test_the_systems_folders_and_homes_are_refused(
    installed: Path, monkeypatch: pytest.MonkeyPatch, folder: str, which: str
) -> None:
    home = installed / "user"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    if folder == "~":
        folder = str(home)
        (home / "pwsh.dll").touch()
    lines = {
        "home": (folder, runtime(installed)),
        "net": (installed / "home", f"{folder}/shared/Microsoft.NETCore.App/10.0.1"),
    }
    program = names(installed, *lines[which], "7.6.9")
    with pytest.raises(Stop, match=f"its folder {folder} also contains") as refused:
        powershell.named(program)
    assert refused.value.code == USAGE
    assert "\n" not in str(refused.value)


def test_a_folder_that_a_link_makes_of_the_system_is_refused(installed: Path) -> None:
    (installed / "link").symlink_to("/usr")
    program = names(installed, installed / "link", runtime(installed), "7.6.9")
    with pytest.raises(Stop, match=r"its folder /usr also contains"):
        powershell.named(program)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("echo 7.6.9", "does not run as PowerShell 7 here"),
        ("echo no licence >&2; exit 3", "does not run as PowerShell 7 here: no licence"),
        ("echo a; echo b; echo c", "does not run as PowerShell 7 here"),
        (
            "echo HERE/net; echo HERE/x/y/z; echo 7.6.9",
            "its folder HERE/net does not contain pwsh.dll",
        ),
        (
            "echo HERE/home; echo HERE/home; echo 7.6.9",
            "its folder HERE/home does not contain pwsh",
        ),
        (
            "echo HERE/home; echo HERE/x/y/z/a; echo 7.6.9",
            "its folder HERE/x does not contain dotnet",
        ),
        ("sleep 60", "printed nothing within 0.2 s"),
    ],
)
def test_what_is_no_powershell_is_refused(
    installed: Path, monkeypatch: pytest.MonkeyPatch, text: str, words: str
) -> None:
    if "sleep" in text:
        monkeypatch.setattr(powershell, "_WITHIN", 0.2)
    program = made(installed, text.replace("HERE", str(installed)))
    with pytest.raises(Stop) as refused:
        powershell.named(program)
    assert str(refused.value).startswith(f"--powershell={program}: ")
    assert words.replace("HERE", str(installed)) in str(refused.value)
    assert refused.value.code == USAGE


def test_a_program_that_is_not_there_is_refused() -> None:
    with pytest.raises(Stop, match=r"--powershell=no-such-pwsh: this program does not exist"):
        powershell.named("no-such-pwsh")


def test_a_file_that_is_no_program_is_refused(tmp_path: Path) -> None:
    garbled = tmp_path / "garbled"
    garbled.write_bytes(os.urandom(64))
    garbled.chmod(0o755)
    with pytest.raises(Stop, match=r"cannot be run: "):
        powershell.named(str(garbled))
