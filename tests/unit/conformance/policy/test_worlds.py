# SPDX-License-Identifier: Apache-2.0
"""Worlds: filled in for the existing seats, edited in one step, with the expected result of each
cell, by claim."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from conformance.errors import UsageProblem
from conformance.policy import worlds
from conformance.policy.oracle.oracle import Verdict
from conformance.policy.worlds import Cell, Seat, World

NAMESPACES = {"a": "run-a", "b": "run-b"}
SEATS = tuple(
    Seat(space, system, node, f"{space}-{node}", f"10.0.{number}.{7 if space == 'a' else 8}")
    for number, (system, node) in enumerate(
        (("linux", "lin-1"), ("windows", "win-1"), ("windows", "win-2"))
    )
    for space in ("a", "b")
)
ALLOWED, DENIED = Verdict.ALLOWED, Verdict.DENIED


def world(objects: str, *, claim: str = "POL-1", then: str = "{}") -> World:
    return worlds.read(
        "w", {"claim": claim, "objects": yaml.safe_load(objects), "then": yaml.safe_load(then)}
    )


def policy(spec: str, *, name: str = "p", namespace: str = "${a}") -> str:
    meta = f"metadata: {{name: {name}, namespace: '{namespace}'}}"
    return (
        f"- {{apiVersion: projectcalico.org/v3, kind: NetworkPolicy, {meta}, spec: {{{spec}}}}}\n"
    )


def expected(one: World) -> dict[tuple[str, str, str, int], Cell]:
    objects = [*worlds.surroundings(one, SEATS, NAMESPACES), *one.filled(SEATS, NAMESPACES)]
    return {
        (cell.source.pod, cell.destination.pod, cell.protocol, cell.port): cell
        for cell in worlds.cells(objects, SEATS, one.claim)
    }


def rules(one: World) -> Any:
    return one.filled(SEATS, NAMESPACES)[0]["spec"]["ingress"]


def test_symbols_are_names_addresses_and_networks() -> None:
    nets = "ingress: [{action: Allow, source: {nets: ['${b.windows}/32', '${a.linux}/26'], selector: \"x == '${b}'\"}}]"
    one = world(policy(nets))
    assert one.filled(SEATS, NAMESPACES)[0]["metadata"]["namespace"] == "run-a"
    assert rules(one) == [
        {
            "action": "Allow",
            "source": {"nets": ["10.0.1.8/32", "10.0.0.0/26"], "selector": "x == 'run-b'"},
        }
    ]


def test_a_symbol_that_is_none_is_refused() -> None:
    with pytest.raises(UsageProblem, match="manifest w: no value for"):
        world(policy("ingress: [{action: Allow, source: {nets: ['${c.linux}/32']}}]")).filled(
            SEATS, NAMESPACES
        )


@pytest.mark.parametrize(
    "given",
    [{}, {"claim": "POL-1"}, {"objects": [{}]}, {"claim": "x", "objects": [{}], "y": 1}, []],
)
def test_a_file_that_is_no_world_is_refused(given: Any) -> None:
    with pytest.raises(UsageProblem, match="world w"):
        worlds.read("w", given)


def test_seats_of_one_system_are_alike() -> None:
    peer = "{selector: \"x == '2'\", namespaceSelector: all()}"
    cells = expected(world(policy(f"ingress: [{{action: Allow, source: {peer}}}]")))
    of_pair = {
        (source, destination): cell.expected for (source, destination, *_), cell in cells.items()
    }
    assert len(cells) == 4 * 3 * 3 + 4 * 2 * 2, (
        "everything among the first of each kind, one port for the others"
    )
    for node in ("win-1", "win-2"):
        assert of_pair["b-lin-1", f"a-{node}"] is ALLOWED
        assert of_pair[f"b-{node}", "a-lin-1"] is DENIED


def test_a_cell_on_which_both_columns_agree_is_the_worlds_and_another_its_switchs() -> None:
    cells = expected(
        world(policy("ingress: [{action: Allow, source: {notNets: ['${b.linux}/32']}}]"))
    )
    differs = cells["a-lin-1", "a-win-1", "TCP", 80]
    assert (differs.promised, differs.expected, differs.claim) == (ALLOWED, DENIED, "XPOL-1")
    agrees = cells["b-lin-1", "a-win-1", "TCP", 80]
    assert (agrees.promised, agrees.expected, agrees.claim) == (DENIED, DENIED, "POL-1")
    assert cells["a-win-1", "a-lin-1", "TCP", 80].claim == "POL-1"


def test_a_cell_of_which_nothing_is_said_is_nobodys() -> None:
    cells = expected(
        world(policy("ingress: [{action: Deny}]") + policy("ingress: [{action: Allow}]", name="q"))
    )
    assert cells["b-lin-1", "a-win-1", "TCP", 80].claim == ""
    assert cells["a-lin-1", "b-win-1", "TCP", 80].claim == "POL-1"


def test_a_service_has_the_seats_that_it_selects() -> None:
    service = (
        "- {apiVersion: v1, kind: Service, metadata: {name: echo, namespace: '${b}'}, "
        "spec: {selector: {x: '13'}, ports: [{port: 8080, protocol: TCP}]}}\n"
    )
    rule = "egress: [{action: Allow, destination: {services: {name: echo, namespace: '${b}'}}}]"
    cells = expected(world(service + policy(rule), claim="XPOL-7"))
    assert cells["a-win-1", "b-win-1", "TCP", 8080].expected is ALLOWED
    assert cells["a-win-1", "b-win-1", "UDP", 8080].expected is DENIED
    assert cells["a-win-1", "b-lin-1", "TCP", 8080].expected is DENIED


@pytest.mark.parametrize("target", ["80", "page"])
def test_a_rule_about_a_service_opens_the_port_of_its_pods_and_not_its_own(target: str) -> None:
    service = (
        "- {apiVersion: v1, kind: Service, metadata: {name: echo, namespace: '${b}'}, "
        f"spec: {{selector: {{x: '13'}}, "
        f"ports: [{{port: 8080, protocol: TCP, targetPort: {target}}}]}}}}\n"
    )
    rule = "egress: [{action: Allow, destination: {services: {name: echo, namespace: '${b}'}}}]"
    cells = expected(world(service + policy(rule), claim="XPOL-7"))
    assert cells["a-win-1", "b-win-1", "TCP", 80].expected is ALLOWED
    assert cells["a-win-1", "b-win-1", "TCP", 8080].expected is DENIED


PUT = policy("ingress: []").removeprefix("- ").strip()


@pytest.mark.parametrize(
    ("then", "verdict"),
    [
        ("{}", DENIED),
        (f"{{put: {policy('ingress: [{action: Allow}]').removeprefix('- ').strip()}}}", ALLOWED),
        (
            f"{{put: {policy('order: 1, ingress: [{action: Allow}]', name='q').removeprefix('- ').strip()}}}",
            ALLOWED,
        ),
        (
            f"{{put: [{PUT}, {policy('order: 1, ingress: [{action: Allow}]', name='q').removeprefix('- ').strip()}]}}",
            ALLOWED,
        ),
        ("{gone: 'NetworkPolicy ${a}/p'}", ALLOWED),
        ("{labels: {b.linux: {x: '1'}}}", ALLOWED),
        ("{labels: {b: {team: friends}}}", ALLOWED),
    ],
)
def test_an_edit_is_one_step(then: str, verdict: Verdict) -> None:
    allowed = "{action: Allow, source: {selector: \"x == '1'\", namespaceSelector: all()}}"
    friends = "{action: Allow, source: {namespaceSelector: \"team == 'friends'\"}}"
    one = world(policy(f"order: 5, ingress: [{allowed}, {friends}]"), then=then)
    assert expected(one)["b-lin-1", "a-win-1", "TCP", 80].expected is DENIED
    assert expected(one.edited())["b-lin-1", "a-win-1", "TCP", 80].expected is verdict
