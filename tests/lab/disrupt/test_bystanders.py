# SPDX-License-Identifier: Apache-2.0
"""Pods of other owners on a lab keep their network, or get it again, when a node's HNS network
is created again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from conformance.disrupt.procedure import HNS_NETWORK
from conformance.errors import MissingCapability
from conformance.facts.detect import detect
from conformance.journal import Journal, Journalled, Outcome
from conformance.journal.restore import Restored, restore
from conformance.kube.ownership import Ownership
from conformance.undo.healers import healers_of
from tests.lab.disrupt.test_dead_in_the_middle import LINUX, NEW, NODE, OLD, Harness, harness  # noqa: F401
from tests.reliability.bystander import Bystander, Kind

RUN = "beside"


class Story:
    """A run of its own beside a bystander, which gives nodes another VNI and a new network."""

    def __init__(self, parts: Harness, kind: Kind) -> None:
        self.harness, self.bystander = parts, Bystander(parts.lab, kind)
        self.changes, self.journal = parts.run(RUN), Journal(parts.kube, Ownership(RUN), within=5.0)
        healers = healers_of(self.changes, parts.facts, parts.settings)
        self.journalled = Journalled(self.changes, self.journal, healers, lambda: None)

    def deliver(self) -> None:
        HNS_NETWORK.note(self.journalled, NODE)
        self.harness.vni(self.journalled).deliver(NEW, linux=[LINUX], windows=[NODE])

    def new_network(self, hosts: Any = None) -> None:
        self.harness.procedure(
            self.changes, self.journalled, hosts or self.harness.hosts
        ).new_network(NODE)

    def restore(self) -> list[Restored]:
        """Restore as another process does; return its result for each entry."""
        later = healers_of(
            self.harness.run("later"),
            detect(self.harness.kube, evidence="lab"),
            self.harness.settings,
        )
        return restore(self.journal, self.changes, later)


@pytest.fixture
def story(harness: Harness, request: pytest.FixtureRequest) -> Iterator[Story]:  # noqa: F811
    one = Story(harness, request.param)
    yield one
    one.bystander.remove()
    assert {done.outcome for done in one.restore()} <= {Outcome.RESTORED, Outcome.UNCHANGED}
    assert harness.vni(one.changes).configured() == OLD


@pytest.mark.parametrize("story", ["plain"], indirect=True)
def test_one_that_goes_elsewhere_or_waits_has_its_traffic_again_after_the_procedure_and_its_healer(
    story: Story,
) -> None:
    story.bystander.deploy()
    story.deliver()
    assert not story.bystander.ways()["linux to windows by pod"], "two VNIs, and nobody noticed"
    story.new_network()
    assert story.bystander.lost() == []
    assert story.bystander.were_there.isdisjoint(
        uid for uid, node in story.bystander.pods().items() if node == NODE
    ), "its pods stayed on the drained node"
    done = story.restore()
    assert [one for one in done if "healed by hns-network" in str(one)], [str(one) for one in done]
    assert story.bystander.lost() == []


@pytest.mark.parametrize("story", ["blanket"], indirect=True)
def test_one_that_would_come_back_is_named_and_nothing_is_touched(story: Story) -> None:
    story.bystander.deploy()
    procedure = story.harness.procedure(story.changes, story.journalled, story.harness.hosts)
    with pytest.raises(
        MissingCapability,
        match=r"node windows cannot be drained: .* somebody-else/windows-.* \(tolerates",
    ):
        procedure.possible(NODE)
    assert set(story.bystander.pods()) == story.bystander.were_there
    assert story.bystander.lost() == []
    assert not story.harness.kube.get("v1", "Node", NODE)["spec"].get("unschedulable")


@pytest.mark.parametrize("story", ["blanket"], indirect=True)
def test_one_that_comes_while_the_network_is_removed_has_one_in_the_end(story: Story) -> None:
    class Late:
        """The node's host, where pods come just before the command that removes the network."""

        def __getattr__(self, name: str) -> Any:
            return getattr(story.harness.hosts, name)

        def remove_hns_networks(self, *words: Any) -> Any:
            story.bystander.start()
            return story.harness.hosts.remove_hns_networks(*words)

    story.deliver()
    story.new_network(Late())
    on_node = [uid for uid, node in story.bystander.pods().items() if node == NODE]
    assert on_node
    story.bystander.deploy()  # which finds it there, and all its ways open


@pytest.mark.parametrize("story", ["blanket"], indirect=True)
def test_a_healer_that_it_keeps_from_its_work_names_it_and_stays_open(story: Story) -> None:
    story.deliver()
    story.new_network()
    story.bystander.start()
    were_there = set(story.bystander.pods())
    done = {one.entry.procedure: one for one in story.restore() if one.outcome is Outcome.FAILED}
    assert list(done) == ["hns-network"]
    said = str(done["hns-network"])
    assert f"the HNS network of node {NODE} keeps VSID {NEW}, although the VNI is {OLD}" in said
    assert "somebody-else/windows-" in said
    assert "pytest --restore" in said
    assert [entry.procedure for entry in still_open(story)] == ["hns-network"]
    assert set(story.bystander.pods()) == were_there, "it was evicted in vain"
    addresses = {endpoint.address for endpoint in story.harness.hosts.hns_endpoints(NODE)}
    pods = story.harness.kube.objects("v1", "Pod", "somebody-else", labels="app=windows")
    assert {pod["status"]["podIP"] for pod in pods} <= addresses


def still_open(story: Story) -> list[Any]:
    return [entry for entry in story.journal.entries() if entry.open]
