# SPDX-License-Identifier: Apache-2.0
"""Direct server return is a fact of each Windows node, and only the flags of its running
kube-proxy show it."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.facts.detect import detect
from conformance.facts.dsr import HEAD, enabled_in, logged

START = "Start to run C:\\hpc/kube-proxy/kube-proxy.exe --hostname-override= --v=2 --proxy-mode=kernelspace"
LINUX = "kind: KubeProxyConfiguration\nwinkernel:\n  enableDSR: false\n"


@pytest.mark.parametrize(
    ("command", "value"),
    [
        ("kube-proxy.exe --enable-dsr=true --v=4", True),
        ("kube-proxy.exe --enable-dsr", True),
        ('"C:\\k\\kube-proxy.exe" --enable-dsr="true"', True),
        ("kube-proxy.exe --enable-dsr=false", False),
        ("kube-proxy.exe --enable-dsr=true --enable-dsr=false", False),
        ("kube-proxy.exe --v=4", None),
        ("kube-proxy.exe --enable-dsr-later=true", None),
        ("kube-proxy.exe --config=C:\\k\\proxy.conf --enable-dsr=true", None),
        ("kube-proxy.exe --enable-dsr=true --config C:\\k\\proxy.conf", None),
    ],
)
def test_a_command_line_says_it_by_its_last_flag_or_not_at_all(
    command: str, value: bool | None
) -> None:
    assert enabled_in(command) is value


def test_a_log_says_it_where_it_repeats_the_start() -> None:
    assert (
        logged(f"DSR feature is supported, --enable-dsr=false is not\n{START} --enable-dsr=true\n")
        is True
    )
    assert logged('I1122 flags.go:64] FLAG: --enable-dsr="false"\n') is False
    assert logged(f"{START}\n") is None


def test_a_log_whose_newest_start_has_a_configuration_file_says_nothing() -> None:
    assert logged(f"{START} --enable-dsr=true --config=C:\\k\\proxy.conf\n") is None
    flags = 'FLAG: --config="{}"\nFLAG: --enable-dsr="true"\n'
    assert logged(flags.format("C:\\k\\proxy.conf")) is None
    assert logged(flags.format("")) is True
    assert logged(f"{START} --enable-dsr=true\n" + flags.format("/etc/proxy.conf")) is None
    assert logged(flags.format("/etc/proxy.conf") + f"{START} --enable-dsr=false\n") is False


def pod(world: Any, where: str, *, args: list[str], log: str | int = "") -> None:
    name = f"kube-proxy-windows-{where}"
    spec = {"nodeName": where, "containers": [{"name": "kube-proxy", "args": args}]}
    path = f"/api/v1/namespaces/kube-system/pods/{name}"
    world.put(path, {"spec": spec})
    answer = (log, {"message": "no"}) if isinstance(log, int) else (200, log.encode())
    own = {
        f"GET {path}/log": lambda request: (
            answer if request.query["limitBytes"] == str(HEAD) else None
        )
    }
    world.api.routes = own | world.api.routes


@pytest.fixture
def windows(world: Any) -> Any:
    for name in ("win-1", "win-2"):
        world.node(name, "windows", "10.0.20348.2762")
    return world


def dsr(kube: Any) -> dict[str, bool | None]:
    return {node.name: node.dsr.value for node in detect(kube).by_os("windows")}


def test_each_node_has_its_own(kube: Any, windows: Any) -> None:
    pod(windows, "win-1", args=["--enable-dsr=true"])
    pod(windows, "win-2", args=["--enable-dsr=false"])
    assert dsr(kube) == {"win-1": True, "win-2": False}


def test_the_log_counts_before_the_arguments_and_both_say_where_they_were_read(
    kube: Any, windows: Any
) -> None:
    pod(windows, "win-1", args=["start.ps1"], log=f"waiting\n{START} --enable-dsr=true\n")
    pod(windows, "win-2", args=["--enable-dsr=true"], log=f"{START} --enable-dsr=false\n")
    assert dsr(kube) == {"win-1": True, "win-2": False}
    sources = [node.dsr.source for node in detect(kube).by_os("windows")]
    assert sources[0] == "--enable-dsr in the log of pod kube-system/kube-proxy-windows-win-1"


def test_it_is_never_linux_configuration_and_never_off_for_want_of_a_flag(
    kube: Any, windows: Any
) -> None:
    windows.put(
        "/api/v1/namespaces/kube-system/configmaps/kube-proxy", {"data": {"config.conf": LINUX}}
    )
    pod(windows, "win-1", args=["start.ps1"])
    nodes = detect(kube).by_os("windows")
    assert [node.dsr.value for node in nodes] == [None, None]
    assert "neither its log nor its arguments name --enable-dsr" in nodes[0].dsr.source
    assert "no pod kube-proxy* of namespace kube-system is on the node" in nodes[1].dsr.source


def test_a_log_that_cannot_be_read_leaves_the_arguments(kube: Any, windows: Any) -> None:
    pod(windows, "win-1", args=["--enable-dsr"], log=403)
    pod(windows, "win-2", args=["start.ps1"], log=403)
    assert dsr(kube) == {"win-1": True, "win-2": None}
    assert "its log could not be read" in detect(kube).by_os("windows")[1].dsr.source


def test_linux_nodes_have_none(kube: Any, world: Any) -> None:
    world.node("lin")
    assert detect(kube).nodes[0].dsr.value is None
