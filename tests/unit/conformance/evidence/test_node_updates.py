"""A node that is looked into anyway is asked for its updates once, and a failure is told and no more."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from conformance.errors import MissingCapability, ProbeBroken
from conformance.evidence.node_readings import NodeReadings, is_read_on_node
from conformance.facts.updates import windows_update
from conformance.model.facts import Fact
from tests.plugin.stand_in_cluster import facts

LABEL = {"example.com/update": "KB5040000"}


@dataclass
class Host:
    """One node's answers."""

    listed: list[str] | Exception
    asked: int = 0
    learnt: dict[str, Fact[str]] = field(default_factory=dict)

    def updates(self, node: str) -> list[str]:
        self.asked += 1
        if isinstance(self.listed, Exception):
            raise self.listed
        return self.listed

    def command_lines(self, node: str, program: str) -> list[str]:
        return [f"{program} --enable-dsr=true on {node}"]

    def file(self, node: str, path: str) -> str:
        raise AssertionError(path)

    def known(self, labels: dict[str, str] | None = None) -> NodeReadings:
        told = facts(windows=1)
        update = windows_update("10.0.20348.2762", labels or {}, {})
        nodes = tuple(replace(node, update=update) for node in told.nodes)
        stand_in = replace(told, nodes=nodes)
        looked = {"win-0": Fact(True, "a look before")}
        return NodeReadings(
            lambda: stand_in,
            self.learn,
            lambda name: dict(self.learnt) if name == "update" else looked,
        )

    def learn(self, name: str, node: str, fact: Fact[str]) -> None:
        assert name == "update"
        self.learnt[node] = fact

    def of(self, labels: dict[str, str] | None = None) -> Fact[str]:
        self.known(labels).look("win-0", self)  # type: ignore[arg-type]
        return self.learnt["win-0"]


def test_a_node_s_updates_are_what_it_lists_once_each() -> None:
    found = Host(["KB5044281", "kb5042350", "KB5044281", "Update for x"]).of()
    assert found == Fact(
        "KB5044281, KB5042350", "updates that Win32_QuickFixEngineering of the node lists"
    )


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        ([], "Win32_QuickFixEngineering of the node lists no update"),
        (["File 1"], "Win32_QuickFixEngineering of the node lists no update"),
        (ProbeBroken("no answer\nfor long"), "the node itself could not be asked: no answer"),
        (
            MissingCapability("no HostProcess pod", "allow it"),
            "the node itself could not be asked: no HostProcess pod; allow it",
        ),
    ],
)
def test_what_is_not_known_says_why_and_breaks_nothing(
    listed: list[str] | Exception, expected: str
) -> None:
    found = Host(listed).of()
    assert found.value is None
    assert found.source.startswith("not known: Kubernetes gives build and revision alone")
    assert found.source.endswith(f"; {expected}")


def test_a_node_is_asked_once_by_all_workers_and_never_where_a_label_names_its_update() -> None:
    host = Host(["KB5044281"])
    first, second = host.known(), host.known()
    for each in (first, first, second):
        each.look("win-0", host)  # type: ignore[arg-type]
    assert host.asked == 1
    named = Host(["KB5044281"])
    named.known(LABEL).look("win-0", named)  # type: ignore[arg-type]
    assert (named.asked, named.learnt) == (0, {})


def test_only_what_a_node_itself_told_says_that_it_can_be_looked_into() -> None:
    known = facts(windows=1)
    readings = NodeReadings(lambda: known, lambda name, node, fact: None)
    dsr = readings.dsr("win-0", Host([]))  # type: ignore[arg-type]
    assert is_read_on_node(dsr)
    assert not is_read_on_node(Fact(True, "kube-proxy's log: --enable-dsr=true"))
