# SPDX-License-Identifier: Apache-2.0
"""The header says if one printed version stands for several, and if the suite is not supported
there."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.model.facts import Fact
from conformance.plugin.header import (
    assumptions,
    coverage_lines,
    dsr,
    facts_lines,
    installs,
    lines,
    nodes,
    planes,
)
from conformance.plugin.notes import AGENT_NOT_EXECUTED, windows_agents
from conformance.settings import Settings
from tests.plugin.stand_in_cluster import facts, node


def test_nothing_is_assumed_of_a_cluster_with_one_known_version() -> None:
    same = {name: Fact("v3.31.2", "image") for name in ("a", "b")}
    assert (
        assumptions(replace(facts(), calico_on_nodes=same, calico_edition=Fact("Calico", "images")))
        == []
    )


def test_nodes_with_different_versions_are_named() -> None:
    mixed = {
        "a": Fact("v3.31.2", "image"),
        "b": Fact("v3.30.0", "image"),
        "c": Fact[str](None, "not known: no pod"),
    }
    (line,) = assumptions(replace(facts(), calico_on_nodes=mixed))
    assert line.startswith("nodes run different versions of Calico (v3.31.2 on a; v3.30.0 on b)")


def test_a_node_that_announces_no_address_where_others_do_is_named() -> None:
    known = facts(windows=1)

    def noted(mode: Any, *announcing: str) -> list[str]:
        address = {"projectcalico.org/IPv4Address": "10.0.0.5/24"}
        nodes = [
            replace(node, annotations=address if node.os in announcing else {})
            for node in known.nodes
        ]
        changed: Any = replace(known, nodes=tuple(nodes), mode=Fact(mode, "x"))
        return [line for line in assumptions(changed) if "IPv4Address" in line]

    (line,) = noted("vxlan", "linux")
    (windows,) = known.by_os("windows")
    assert line.startswith(
        f"annotation projectcalico.org/IPv4Address is missing on {windows.name}: "
    )
    assert noted("vxlan", "linux", "windows") == []
    assert noted("vxlan") == []  # Calico keeps its nodes in etcd
    assert noted("policy-only", "linux") == []


def test_the_report_names_what_ran_the_windows_agents_of_a_lab() -> None:
    known = facts(windows=2)
    assert windows_agents(known) == AGENT_NOT_EXECUTED
    nodes = [
        replace(node, labels={**node.labels, "hybridlab.windows-agents": "PowerShell-7.6.9-rc.1"})
        for node in known.by_os("windows")
    ]
    changed = replace(known, nodes=(*known.by_os("linux"), *nodes))
    assert windows_agents(changed) == "Windows agents: PowerShell 7.6.9-rc.1 inside the lab"


def test_enterprise_is_judged_by_the_calico_that_it_is_built_on() -> None:
    (line,) = assumptions(
        replace(facts(), calico_edition=Fact("Calico Enterprise", "Installation"))
    )
    assert (
        line
        == "this is Calico Enterprise: claims are judged as for Calico v3.31.2, which it is built on"
    )


def test_a_windows_2025_before_october_2025_is_named_as_windows_own_trouble() -> None:
    known = facts(windows=1)

    def noted(build: int, revision: int, plane: str | None = "overlay") -> list[str]:
        nodes = [
            replace(node, windows_build=(build, revision), plane=Fact(plane, "x"))
            for node in known.by_os("windows")
        ]
        return [
            line
            for line in assumptions(replace(known, nodes=tuple(nodes)))
            if "defect of Windows" in line
        ]

    (line,) = noted(26100, 6584)
    assert line.startswith(
        "known defect of Windows on win-0 (26100.6584): overlay networks of pods do not work"
    )
    assert noted(26100, 6584, plane=None) == [line]
    assert noted(26100, 6899) == noted(20348, 1) == noted(26100, 6584, plane="l2bridge") == []


def test_the_operator_s_own_words_are_in_the_header_where_there_is_one() -> None:
    told = Fact("calico-windows is degraded: ResourceReadError", "TigeraStatus")
    assert (
        "TigeraStatus: calico-windows is degraded"
        in facts_lines(replace(facts(), tigera_status=told))[2]
    )
    assert len(facts_lines(facts())) == 2


def test_the_ipam_plugin_is_among_the_facts() -> None:
    assert (
        "IPAM calico-ipam"
        in facts_lines(replace(facts(), ipam=Fact("calico-ipam", "Installation")))[1]
    )


def test_linux_nodes_unlike_every_covered_one_are_named_and_counted() -> None:
    first, *_ = facts().by_os("linux")
    several = [
        replace(first, name=f"l{number}", control_plane=False, kernel_version=f"5.{number}")
        for number in range(8)
    ]
    told = coverage_lines(replace(facts(), nodes=(*several, *facts().by_os("windows"))), Settings())
    assert told[-1] == (
        "note: no Linux node with kernel 5.3; kernel 5.4; kernel 5.5 and 2 more is covered; "
        "cover more nodes with --max-nodes-per-os or --nodes"
    )
    assert not [line for line in coverage_lines(facts(), Settings()) if "no Linux node" in line]


def test_a_node_that_is_not_ready_is_named_with_why_and_one_that_is_left_out_is_not() -> None:
    dead = replace(
        facts().by_os("linux")[0], name="linux-9", ready=False, unready="NodeStatusUnknown for 90 s"
    )
    told = coverage_lines(replace(facts(), nodes=(*facts().nodes, dead)), Settings())
    assert (
        told[-1] == "note: nothing is decided about nodes that are not ready: linux-9 "
        "(NodeStatusUnknown for 90 s)"
    )
    assert not [line for line in coverage_lines(facts(), Settings()) if "not ready" in line]


@pytest.mark.parametrize(
    ("shared", "late"),
    [(True, "the lab on it may be late"), (False, "the suite's requests and answers may be late")],
)
def test_a_busy_machine_is_named(monkeypatch: pytest.MonkeyPatch, shared: bool, late: str) -> None:
    monkeypatch.setattr("conformance.schedule.load.busy", lambda: "a load of 9.3 on 2 cores")
    run: Any = SimpleNamespace(
        connection=None, choice=SimpleNamespace(why="the default"), facts=None, settings=Settings(), workers="",
        directory=None, shares_machine=shared, inspection=None,
    )  # fmt: skip
    (note,) = [line for line in lines(run, whole=True) if "busy" in line]
    assert note.startswith(f"note: this machine is busy (a load of 9.3 on 2 cores): {late}")


@pytest.mark.parametrize(
    ("windows", "linux", "words"),
    [
        (0, 1, ("0 Windows nodes", "1 Linux node")),
        (1, 2, ("1 Windows node (10.0.20348.2762)", "2 Linux nodes")),
        (2, 0, ("2 Windows nodes (10.0.20348.2762)", "0 Linux nodes")),
    ],
)
def test_nodes_are_counted_with_their_builds(
    windows: int, linux: int, words: tuple[str, str]
) -> None:
    made = facts(windows=windows)
    few = replace(made, nodes=(*made.by_os("linux")[:linux], *made.by_os("windows")))
    assert (nodes(few, "windows"), nodes(few, "linux")) == words


def test_nodes_of_two_builds_are_named_with_both() -> None:
    other = node("win-9", "windows", (17763, 1999))
    both = replace(facts(windows=1), nodes=(*facts(windows=1).nodes, other))
    assert nodes(both, "windows") == "2 Windows nodes (10.0.20348.2762, 10.0.17763.1999)"


def of_windows(*changes: dict[str, Any]) -> Any:
    """Facts with a Windows node for each of these changes."""
    made = facts(windows=len(changes))
    changed = (
        replace(one, **change) for one, change in zip(made.by_os("windows"), changes, strict=True)
    )
    return replace(made, nodes=(*made.by_os("linux"), *changed))


def test_what_windows_nodes_differ_in_is_named_by_node() -> None:
    on, off, unknown = (Fact(value, "a test") for value in (True, False, None))
    assert dsr(of_windows()) == "unknown"
    assert dsr(of_windows({"dsr": on}, {"dsr": on})) == "on"
    assert dsr(of_windows({"dsr": off})) == "off"
    differing = of_windows({"dsr": on}, {"dsr": unknown}, {"dsr": on})
    assert dsr(differing) == "on (win-0, win-2), unknown (win-1)"


def test_planes_and_installations_are_those_of_all_windows_nodes() -> None:
    overlay, bridge, unknown = (Fact(value, "a test") for value in ("overlay", "l2bridge", None))
    assert planes(of_windows()) == "unknown"
    assert planes(of_windows({"plane": overlay}, {"plane": overlay})) == "overlay"
    assert planes(of_windows({"plane": overlay}, {"plane": bridge})) == "l2bridge and overlay"
    assert planes(of_windows({"plane": unknown})) == "unknown"
    by_hand = of_windows({"install": Fact("manual", "a test")}, {})
    assert installs(by_hand).value == "operator, manual on win-0"
