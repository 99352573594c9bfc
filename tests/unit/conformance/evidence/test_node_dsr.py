"""A test asks a node itself before it believes logs and arguments, and asks it once."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from conformance.errors import MissingCapability, ProbeBroken
from conformance.evidence.node_readings import NodeReadings, source_vip
from conformance.model.facts import Fact
from tests.plugin.stand_in_cluster import facts

COMMAND = "C:\\k\\kube-proxy.exe --v=3"


@dataclass
class Host:
    """One node's answers."""

    lines: list[str] | Exception
    asked: int = 0
    learnt: dict[str, Fact[bool]] = field(default_factory=dict)
    config: str | Exception = ""

    def command_lines(self, node: str, program: str) -> list[str]:
        assert program == "kube-proxy.exe"
        self.asked += 1
        if isinstance(self.lines, Exception):
            raise self.lines
        return self.lines

    def file(self, node: str, path: str) -> str:
        assert path == "C:\\k\\kube proxy.conf"
        if isinstance(self.config, Exception):
            raise self.config
        return self.config

    def dsr(self, read: bool | None = None) -> NodeReadings:
        known = facts(windows=1)
        nodes = tuple(replace(node, dsr=Fact(read, "the log")) for node in known.nodes)
        stand_in = replace(known, nodes=nodes)
        return NodeReadings(lambda: stand_in, self.learn, lambda name: dict(self.learnt))

    def learn(self, name: str, node: str, fact: Fact[bool]) -> None:
        assert name == "dsr"
        self.learnt[node] = fact

    def of(self, read: bool | None = None) -> Fact[bool]:
        return self.dsr(read).dsr("win-0", self)  # type: ignore[arg-type]


REFUSED = MissingCapability("no HostProcess pod runs", "allow them")


@pytest.mark.parametrize(
    ("lines", "read", "value"),
    [
        ([f"{COMMAND} --enable-dsr=true"], None, True),
        ([f"{COMMAND} --enable-dsr=false"], True, False),
        ([COMMAND], None, False),
        ([COMMAND], True, False),
        ([], None, None),
        (REFUSED, None, None),
        (REFUSED, True, True),
    ],
)
def test_the_command_line_counts_first(
    lines: list[str] | Exception, read: bool | None, value: bool | None
) -> None:
    assert Host(lines).of(read).value is value


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
    host = Host([f"C:\\k\\kube-proxy.exe {flag}--config=C:\\k\\kube proxy.conf --v=4"], config=text)
    assert host.of().value is value
    assert "kube proxy.conf" in host.of().source


@pytest.mark.parametrize(
    ("line", "text", "value"),
    [
        (f"{COMMAND} --source-vip=10.244.2.9 --enable-dsr=false", "", "10.244.2.9"),
        (f'{COMMAND} --source-vip "10.244.2.9"', "", "10.244.2.9"),
        (COMMAND, "", None),
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
def test_the_source_vip_is_what_kube_proxy_was_told(
    line: str, text: str, value: str | None
) -> None:
    host = Host([line], config=text)
    found = source_vip("win-0", host)  # type: ignore[arg-type]
    assert (found.value, "command line of kube-proxy.exe on node win-0" in found.source) == (
        value,
        True,
    )


def test_a_source_vip_that_cannot_be_read_says_why() -> None:
    for lines, why in (
        (REFUSED, "no HostProcess pod runs"),
        (ProbeBroken("cut"), "cut"),
        ([], "it does not run"),
    ):
        found = source_vip("win-0", Host(lines))  # type: ignore[arg-type]
        assert found.value is None
        assert why in found.source


def test_what_is_not_known_says_what_was_seen() -> None:
    assert f"{COMMAND}, without --enable-dsr, which means off" in Host([COMMAND]).of().source
    assert "no kube-proxy.exe runs on node win-0" in Host([]).of().source
    assert "no HostProcess pod runs" in Host(REFUSED).of().source


def test_a_node_that_could_not_be_looked_into_is_error_unless_its_log_says_it() -> None:
    assert Host(ProbeBroken("exec failed")).of(read=True).source == "the log"
    with pytest.raises(ProbeBroken):
        Host(ProbeBroken("exec failed")).of()


def test_a_node_is_asked_once_in_a_run() -> None:
    host = Host([f"{COMMAND} --enable-dsr=true"])
    readings = host.dsr()
    assert (
        readings.dsr("win-0", host)  # type: ignore[arg-type]
        == readings.dsr("win-0", host)  # type: ignore[arg-type]
        == host.dsr().dsr("win-0", host)  # type: ignore[arg-type]
        == host.learnt["win-0"]
    )
    assert host.asked == 1
