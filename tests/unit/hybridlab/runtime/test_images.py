# SPDX-License-Identifier: Apache-2.0
"""The image table answers as registries and kubelets do."""

from __future__ import annotations

import pytest

from hybridlab.powershell.applets import applets as powershell
from hybridlab.runtime import images
from hybridlab.runtime.applets import registry


@pytest.mark.parametrize(
    ("reference", "name"),
    [
        ("busybox", "busybox"),
        ("busybox:1.28", "busybox"),
        ("docker.io/library/busybox:1.36", "busybox"),
        ("mirror.example:5000/team/busybox:1", "busybox"),
        ("nginx@sha256:0123", "nginx"),
        ("mcr.microsoft.com/windows/servercore:ltsc2022", "servercore"),
        ("mirror.example/windows/servercore:1809-amd64", "servercore"),
        ("quay.io/calico/porter:ltsc2022", "porter"),
        ("calico/node:v3.31.2", "calico/node"),
        ("quay.io/calico/node-windows:v3.31.2", "calico/node-windows"),
        ("registry.k8s.io/coredns/coredns:v1.12.1", "coredns"),
        ("python:3.12-alpine", "python"),
        ("sigwindowstools/kube-proxy:v1.34.1-calico-hostprocess", "kube-proxy for Windows"),
        ("registry.k8s.io/kube-proxy:v1.34.1", "kube-proxy"),
    ],
)
def test_an_image_is_known_by_the_end_of_its_repository(reference: str, name: str) -> None:
    found = images.find(reference)
    assert found is not None
    assert found.image.name == name


@pytest.mark.parametrize(
    "reference",
    [
        "notbusybox",
        "busybox/other",
        "mcr.microsoft.com/windows/servercore",
        "servercore:ltsc2022",
        "python:2.7",
        "windows/servercore:2016",
    ],
)
def test_other_names_and_tags_are_unknown(reference: str) -> None:
    assert images.find(reference) is None
    assert not images.facts(reference).known


@pytest.mark.parametrize(
    ("container", "hosts"),
    [
        (17763, {17763}),
        (19042, {19042}),
        (20348, {20348, 25398, 26100}),
        (26100, {26100}),
        (0, set(images.HOST_BUILDS)),
    ],
)
def test_a_windows_image_runs_on_the_builds_that_containerd_accepts(
    container: int, hosts: set[int]
) -> None:
    assert set(images.runnable_on([container])) == hosts


def test_manifest_lists_are_there_for_both_systems_and_others_for_one() -> None:
    assert images.facts("registry.k8s.io/e2e-test-images/agnhost:2.53").os == ("linux", "windows")
    assert images.facts("mcr.microsoft.com/windows/servercore:ltsc2022").os == ("windows",)
    assert images.facts("mcr.microsoft.com/windows/servercore:ltsc2022").windows_builds == (
        20348,
        25398,
        26100,
    )
    assert images.facts("nginx").os == ("linux",)
    assert images.facts("nginx").windows_builds == ()


def test_commands_are_found_whatever_their_directory_and_on_windows_their_case() -> None:
    servercore = images.find("mcr.microsoft.com/windows/servercore:ltsc2022")
    busybox = images.find("busybox")
    assert servercore is not None
    assert busybox is not None
    for name in (
        "powershell",
        "PowerShell.EXE",
        r"C:\Windows\System32\WindowsPowerShell\v1.0\powershell.exe",
    ):
        command = servercore.image.command(name, "windows")
        assert command == images.Command("applet", "powershell")
    assert busybox.image.command("/bin/nc", "linux") == images.Command("applet", "nc")
    assert busybox.image.command("NC", "linux") is None
    assert busybox.image.command("curl", "linux") is None
    assert servercore.image.command("nc", "windows") is None
    assert busybox.image.command("vi", "linux") == images.Command("not_emulated", "vi")


def test_kubernetes_command_and_args_replace_entrypoint_and_cmd() -> None:
    agnhost = images.find("agnhost:2.53")
    assert agnhost is not None
    assert agnhost.image.argv((), ()) == ("/agnhost", "pause")
    assert agnhost.image.argv((), ("netexec",)) == ("/agnhost", "netexec")
    assert agnhost.image.argv(("sh",), ()) == ("sh",)


def test_every_applet_in_the_table_exists_for_the_systems_of_its_image() -> None:
    async def resolver(net: object) -> None:
        return None

    known = {"linux": set(registry.linux(resolver)), "windows": set(registry.windows(powershell()))}
    for image in images.table():
        for name, command in image.commands.items():
            if command.kind == "applet":
                assert any(command.target in known[system] for system in image.os), (
                    f"{name} of {image.name}"
                )


def test_every_image_can_start_by_itself() -> None:
    for image in images.table():
        argv = image.argv((), ())
        assert argv, image.name
        system = "windows" if image.os == ("windows",) else "linux"
        command = image.command(argv[0], system)  # type: ignore[arg-type]
        assert command is not None, f"{argv[0]} of {image.name}"
        assert command.kind != "not_emulated", image.name
