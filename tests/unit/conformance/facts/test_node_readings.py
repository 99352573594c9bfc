# SPDX-License-Identifier: Apache-2.0
"""Values read on a Windows node add what the API does not show, each once, with the differences
between nodes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from conformance.errors import MissingCapability, ProbeBroken
from conformance.facts.node_readings import NodeReadings, source_vip, was_read_on_node
from conformance.facts.updates import windows_update
from conformance.model.facts import Fact, Facts
from conformance.model.host import HnsNetwork
from tests.plugin.stand_in_cluster import facts

UNKNOWN: Fact[Any] = Fact(None, "not known: no DaemonSet says it")
CALICO = '{"name": "Calico", "plugins": [{"type": "calico", "ipam": {"type": "calico-ipam"}}]}'
WIN_BRIDGE = '{"name": "cbr0", "type": "win-bridge", "ipam": {"type": "host-local"}}'
AZURE = (
    '{"name": "azure", "plugins": ['
    '{"type": "azure-vnet", "ipam": {"type": "azure-vnet-ipam"}}, {"type": "portmap"}]}'
)
BRIDGE = HnsNetwork(id="1", name="cbr0", type="L2Bridge", pods=True)
EXTERNAL = HnsNetwork(id="0", name="External", type="Overlay")


def bare() -> Facts:
    known = facts(windows=1)
    nodes = tuple(replace(node, cni=UNKNOWN, ipam=UNKNOWN, plane=UNKNOWN) for node in known.nodes)
    return replace(
        known, nodes=nodes, install=UNKNOWN, calico_on_nodes={"win-0": UNKNOWN}
    ).summed_up()


KUBE_PROXY = "C:\\k\\kube-proxy.exe --v=3"
REFUSED = MissingCapability("no HostProcess pod runs", "allow them")


@dataclass
class Host:
    """One node's answers, and a run that keeps what is learnt of it."""

    program: tuple[str, str] | Exception = ("C:\\CalicoWindows\\calico-node.exe", "v3.24.0")
    cni: str = CALICO
    networks: list[HnsNetwork] = field(default_factory=lambda: [EXTERNAL, BRIDGE])
    lines: list[str] | Exception = field(default_factory=lambda: [KUBE_PROXY])
    config: str | Exception = ""
    listed: list[str] | Exception = field(default_factory=lambda: ["KB5044281"])
    known: Facts = field(default_factory=bare)
    asked: list[str] = field(default_factory=list)
    learnt: dict[str, dict[str, Fact[Any]]] = field(default_factory=dict)

    def calico_program(self, node: str) -> Any:
        return self._answer("program", self.program)

    def cni_configuration(self, node: str) -> Any:
        return self._answer("cni", self.cni)

    def hns_networks(self, node: str) -> Any:
        return self._answer("networks", self.networks)

    def differences(self, node: str) -> dict[str, str]:
        return {"hns\\State HnsAclUpdateChange": "1"}

    def updates(self, node: str) -> Any:
        return self._answer("updates", self.listed)

    def command_lines(self, node: str, program: str) -> Any:
        assert program == "kube-proxy.exe"
        return self._answer("kube-proxy", self.lines)

    def file(self, node: str, path: str) -> Any:
        assert path == "C:\\k\\kube proxy.conf"
        return self._answer("file", self.config)

    def _answer(self, what: str, answer: Any) -> Any:
        self.asked.append(what)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def readings(self) -> NodeReadings:
        """The readings of one of the run's processes."""
        return NodeReadings(
            lambda: self.known, self.learn, lambda name: dict(self.learnt.get(name, {}))
        )

    def looked(self, node: str = "win-0") -> Facts:
        readings = self.readings()
        for each in (readings, readings, self.readings()):
            each.read(node, self)  # type: ignore[arg-type]
        return self.known

    def dsr(self, before: bool | None = None) -> Fact[bool]:
        self.known = with_fields(self.known, dsr=Fact(before, "the log"))
        return self.readings().dsr("win-0", self)  # type: ignore[arg-type]

    def learn(self, name: str, node: str, fact: Fact[Any]) -> None:
        self.learnt.setdefault(name, {})[node] = fact
        self.known = self.known if name == "looked" else self.known.learnt(name, node, fact)


def with_fields(known: Facts, **changed: Any) -> Facts:
    return replace(known, nodes=tuple(replace(node, **changed) for node in known.nodes))


def told(found: Facts) -> tuple[Any, ...]:
    node = found.by_os("windows")[0]
    return (
        found.calico_on("win-0").value,
        found.cni.value,
        found.ipam.value,
        node.plane.value,
        found.install.value,
    )


@pytest.mark.parametrize(
    ("host", "wanted"),
    [
        (Host(cni=WIN_BRIDGE), ("v3.24.0", "win-bridge", "host-local", "l2bridge", "manual")),
        (Host(cni=AZURE), ("v3.24.0", "AzureVNET", "AzureVNET", "l2bridge", "manual")),
        (
            Host(program=("C:\\var\\lib\\rancher\\rke2\\bin\\calico-node.exe", "v3.31.5")),
            ("v3.31.5", "Calico", "calico-ipam", "l2bridge", None),
        ),
        (
            Host(cni=CALICO + WIN_BRIDGE, networks=[EXTERNAL]),
            ("v3.24.0", None, None, None, "manual"),
        ),
        (Host(program=("", "")), (None, "Calico", "calico-ipam", "l2bridge", None)),
    ],
)
def test_what_the_node_has_is_known_afterwards(host: Host, wanted: tuple[Any, ...]) -> None:
    assert told(host.looked()) == wanted
    assert sorted(host.asked) == ["cni", "networks", "program", "updates"]
    assert host.known.by_os("windows")[0].differences.value == {
        "hns\\State HnsAclUpdateChange": "1"
    }


def test_what_the_api_says_stays_but_for_the_plane_of_the_network_itself() -> None:
    said = Fact("v3.31.2", "image"), Fact("Calico", "Installation"), Fact("overlay", "mode")
    host = Host()
    nodes = tuple(
        replace(node, cni=said[1], ipam=said[1], plane=said[2]) for node in host.known.nodes
    )
    host.known = replace(host.known, nodes=nodes, calico_on_nodes={"win-0": said[0]}).summed_up()
    assert told(host.looked())[:4] == ("v3.31.2", "Calico", "Calico", "l2bridge")


@pytest.mark.parametrize(
    "problem", [MissingCapability("no HostProcess pods", "allow them"), ProbeBroken("exec failed")]
)
def test_what_cannot_be_read_stays_unknown_with_both_reasons(problem: Exception) -> None:
    source = Host(program=problem).looked().calico_on("win-0").source
    assert source.startswith("not known: no DaemonSet says it; the node could not be read")


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        (
            ["KB5044281", "kb5042350", "KB5044281", "Update for x"],
            Fact(
                "KB5044281, KB5042350", "updates that Win32_QuickFixEngineering of the node lists"
            ),
        ),
        ([], "Win32_QuickFixEngineering of the node lists no update"),
        (["File 1"], "Win32_QuickFixEngineering of the node lists no update"),
        (ProbeBroken("no answer\nfor long"), "the node could not be read: no answer"),
        (REFUSED, "the node could not be read: no HostProcess pod runs; allow them"),
    ],
)
def test_a_node_s_updates_are_what_it_lists_or_the_reason(listed: Any, expected: Any) -> None:
    before = windows_update("10.0.20348.2762", {}, {})
    host = Host(listed=listed, known=with_fields(bare(), update=before))
    found = host.looked().by_os("windows")[0].update
    if isinstance(expected, str):
        expected = Fact(None, f"{before.source}; {expected}")
    assert found == expected


def test_a_node_whose_label_names_its_update_is_not_asked_for_it() -> None:
    named = windows_update("10.0.20348.2762", {"example.com/update": "KB5040000"}, {})
    host = Host(known=with_fields(bare(), update=named))
    assert host.looked().by_os("windows")[0].update == named
    assert "updates" not in host.asked


@pytest.mark.parametrize(
    ("lines", "before", "value"),
    [
        ([f"{KUBE_PROXY} --enable-dsr=true"], None, True),
        ([f"{KUBE_PROXY} --enable-dsr=false"], True, False),
        ([KUBE_PROXY], None, False),
        ([KUBE_PROXY], True, False),
        ([], None, None),
        ([], True, True),
        (REFUSED, None, None),
        (REFUSED, True, True),
    ],
)
def test_the_command_line_of_kube_proxy_counts_first(
    lines: list[str] | Exception, before: bool | None, value: bool | None
) -> None:
    assert Host(lines=lines).dsr(before).value is value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("winkernel:\n  enableDSR: true\n", True),
        ('{"winkernel":\n  "enableDSR": false}', False),
        ("mode: kernelspace\n", False),
        (ProbeBroken("no such file"), None),
    ],
)
@pytest.mark.parametrize("flag", ["", "--enable-dsr=true ", "--enable-dsr=false "])
def test_a_configuration_file_alone_says_it(
    text: str | Exception, value: bool | None, flag: str
) -> None:
    line = f"C:\\k\\kube-proxy.exe {flag}--config=C:\\k\\kube proxy.conf --v=4"
    found = Host(lines=[line], config=text).dsr()
    assert found.value is value
    assert "kube proxy.conf" in found.source


@pytest.mark.parametrize(
    ("line", "text", "value"),
    [
        (f"{KUBE_PROXY} --source-vip=10.244.2.9 --enable-dsr=false", "", "10.244.2.9"),
        (f'{KUBE_PROXY} --source-vip "10.244.2.9"', "", "10.244.2.9"),
        (KUBE_PROXY, "", None),
        (
            "kube-proxy.exe --config=C:\\k\\kube proxy.conf",
            "winkernel:\n  sourceVip: 10.244.2.9\n",
            "10.244.2.9",
        ),
        (
            "kube-proxy.exe --source-vip=10.0.0.9 --config=C:\\k\\kube proxy.conf",
            "winkernel: {}\n",
            None,
        ),
    ],
)
def test_the_source_vip_is_that_of_kube_proxy_s_settings(
    line: str, text: str, value: str | None
) -> None:
    found = source_vip("win-0", Host(lines=[line], config=text))  # type: ignore[arg-type]
    assert found.value == value
    assert found.source.startswith("command line of kube-proxy.exe on node win-0: ")


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (REFUSED, "no HostProcess pod runs"),
        (ProbeBroken("cut"), "cut"),
        ([], "the program does not run"),
    ],
)
def test_a_source_vip_that_cannot_be_read_says_why(lines: Any, why: str) -> None:
    found = source_vip("win-0", Host(lines=lines))  # type: ignore[arg-type]
    assert found.value is None
    assert why in found.source


def test_an_unknown_direct_server_return_has_its_reason() -> None:
    assert f"{KUBE_PROXY}, without --enable-dsr, which means off" in Host().dsr().source
    assert "no kube-proxy.exe runs on node win-0" in Host(lines=[]).dsr().source
    assert "no HostProcess pod runs" in Host(lines=REFUSED).dsr().source


def test_a_node_that_could_not_be_looked_into_is_error_unless_its_log_says_it() -> None:
    assert Host(lines=ProbeBroken("exec failed")).dsr(before=True).source == "the log"
    with pytest.raises(ProbeBroken):
        Host(lines=ProbeBroken("exec failed")).dsr()


def test_kube_proxy_is_asked_once_in_a_run_and_a_reading_of_the_node_itself_is_known_as_such() -> (
    None
):
    host = Host(lines=[f"{KUBE_PROXY} --enable-dsr=true"])
    first = host.dsr()
    assert first == host.dsr() == host.learnt["dsr"]["win-0"]
    assert host.asked == ["kube-proxy"]
    assert was_read_on_node(first)
    assert not was_read_on_node(Fact(True, "kube-proxy's log: --enable-dsr=true"))
