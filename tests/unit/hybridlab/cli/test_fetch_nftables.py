# SPDX-License-Identifier: Apache-2.0
"""Set-up: what a machine lacks is said at once in its own words, and libnftables is fetched without root."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from hybridlab.cli import fetch_nftables, machine
from hybridlab.cli.main import main
from hybridlab.cluster.exits import Stop
from hybridlab.kernel import libnftables, preflight
from hybridlab.kernel.lack import Lack

HIDDEN = "libnftables-hidden.so.1"
NO_LIBRARY = Lack(what=preflight.LIBNFTABLES, why="it cannot be loaded", remedy="...")
NO_VXLAN = Lack(what="vxlan devices", why="not supported", remedy="sudo modprobe vxlan")


@pytest.fixture
def hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A system without libnftables, and an empty folder for what is fetched."""
    monkeypatch.setattr(libnftables, "LIBRARY", HIDDEN)
    monkeypatch.setattr(libnftables, "NEEDED", ())
    monkeypatch.setattr(libnftables, "FETCHED", tmp_path / "fetched")
    return tmp_path / "fetched"


def loaded_library() -> Path:
    """A shared library that this process has open."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return next(
        Path(line.split()[-1]) for line in lines if "/libm.so" in line or "/libc.so" in line
    )


def program(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """apt-get and dpkg-deb of a Debian that has the packages; a note of what apt-get was told."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program(
        folder,
        "apt-get",
        f'echo "$@" >>{folder}/told; case "$*" in *download*) touch libnftables1.deb;; esac',
    )
    unpacked = f'mkdir -p "$3/usr/lib" && cp {loaded_library()} "$3/usr/lib/{HIDDEN}"'
    program(folder, "dpkg-deb", unpacked)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder


def test_it_is_fetched_as_this_user_into_a_folder_of_its_own(
    hidden: Path, programs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fetch_nftables.run() == 0
    assert [path.name for path in hidden.iterdir()] == [HIDDEN]
    libnftables.load()
    told = (programs / "told").read_text()
    assert "Debug::NoLocking=1" in told
    assert "APT::Sandbox::User= " in told
    assert "/var/" not in told
    assert told.splitlines()[1].endswith(
        "download libnftables1 libnftnl11 libmnl0 libjansson4 libxtables12"
    )
    assert "libnftables is installed: " in capsys.readouterr().out
    assert fetch_nftables.run() == 0  # it is there by now
    assert (programs / "told").read_text() == told


def test_what_apt_get_says_is_passed_on_in_one_line(hidden: Path, programs: Path) -> None:
    program(programs, "apt-get", "echo 'E: Failed to fetch' >&2; echo 'no network' >&2; exit 100")
    with pytest.raises(
        Stop,
        match=r"^apt-get update failed: E: Failed to fetch no network; install libnftables with:  ",
    ) as stop:
        fetch_nftables.run()
    assert stop.value.code == 7
    assert not hidden.exists()


@pytest.mark.usefixtures("hidden")
def test_packages_without_the_library_are_named(programs: Path) -> None:
    program(programs, "dpkg-deb", 'mkdir -p "$3"')
    with pytest.raises(Stop, match=f"the packages libnftables1, .* do not contain {HIDDEN}"):
        fetch_nftables.run()


@pytest.mark.usefixtures("hidden")
def test_without_apt_get_it_is_said_how_this_system_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(
        "platform.freedesktop_os_release", lambda: {"ID": "rocky", "ID_LIKE": "rhel centos fedora"}
    )
    with pytest.raises(
        Stop, match=r"cannot open shared object file.*; install it with:  sudo dnf install nftables"
    ):
        fetch_nftables.run()


@pytest.mark.parametrize(
    ("release", "words"),
    [
        ({"ID": "debian"}, "sudo apt-get install nftables"),
        ({"ID": "linuxmint", "ID_LIKE": "ubuntu debian"}, "sudo apt-get install nftables"),
        ({"ID": "fedora"}, "sudo dnf install nftables"),
        ({"ID": "manjaro", "ID_LIKE": "arch"}, "sudo pacman -S nftables"),
        ({"ID": "opensuse-leap", "ID_LIKE": "suse opensuse"}, "sudo zypper install libnftables1"),
        ({"ID": "nixos"}, "the system's package with libnftables.so.1 (nftables)"),
    ],
)
def test_each_system_has_its_own_words(
    monkeypatch: pytest.MonkeyPatch, release: dict[str, str], words: str
) -> None:
    monkeypatch.setattr("platform.freedesktop_os_release", lambda: release)
    assert machine.install_nftables() == words


def test_all_lacks_are_said_at_once_and_a_library_that_can_be_fetched_is_none(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(preflight, "check", lambda: [NO_VXLAN, NO_LIBRARY])
    monkeypatch.setattr(machine, "can_fetch", lambda: True)
    assert machine.main() == 7
    assert (
        capsys.readouterr().err
        == "this machine cannot run a lab: no vxlan devices: not supported; "
        "remedy: sudo modprobe vxlan\n"
    )
    monkeypatch.setattr(machine, "can_fetch", lambda: False)
    assert [line.partition(":")[0] for line in machine.lacks()] == [
        "no vxlan devices",
        "no libnftables",
    ]
    monkeypatch.setattr(preflight, "check", list)
    assert machine.main() == 0


def test_another_system_than_linux_is_told_what_to_use(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    (line,) = machine.lacks()
    assert "but this system is Darwin: use a Linux virtual machine" in line
    assert main(["up"]) == 7
    assert capsys.readouterr().err.startswith(
        "hybridlab: this machine cannot run a lab: a lab needs the namespaces of Linux, "
    )
