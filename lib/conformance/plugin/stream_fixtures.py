"""Fixtures of the suites about long-lived connections.

Puts the parts together; decides nothing.  Stream agents are the worker's, streams are each test's own.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from conformance.expect.streams import StreamExpect
from conformance.expect.traffic import Expect
from conformance.expect.upheaval import Upheaval
from conformance.expect.witnesses import AclLists
from conformance.kube.changes import Changes
from conformance.model.endpoint import OS
from conformance.model.facts import Facts
from conformance.plugin.recorder import Recorder
from conformance.pods.cast import Cast
from conformance.pods.relabel import Relabel
from conformance.pods.scene import Scene, scene_of
from conformance.probe.host import Hosts
from conformance.probe.prober import Prober
from conformance.probe.streams import Streams


@pytest.fixture(scope="session")
def stream_agents(prober: Prober) -> Iterator[Streams]:
    """Opens and watches streams of the worker."""
    one = Streams(prober)
    yield one
    one.shut()


@pytest.fixture
def streams(stream_agents: Streams, expect: Expect) -> Iterator[StreamExpect]:
    """Expectations about long-lived connections."""
    one = StreamExpect(stream_agents, expect)
    yield one
    one.close()


@pytest.fixture
def upheaval(streams: StreamExpect, expect: Expect, facts: Facts, record: Recorder) -> Upheaval:
    """Changes while streams are up."""
    return Upheaval(
        streams,
        expect,
        facts,
        record=lambda name, value: record(**{name: value}),
        not_observed=record.not_observed,
    )


@pytest.fixture
def acl_lists(expect: Expect, hosts: Hosts) -> AclLists:
    """Expectations about what HNS has of Windows pods' policies."""
    return AclLists(expect, hosts.acl_list)


@pytest.fixture
def scene(pods: Cast, client_os: OS, server_os: OS) -> Scene:
    """Who plays which part in the test's direction."""
    return scene_of(pods, client_os, server_os)


@pytest.fixture
def own_scene(pods: Cast, own_node: str, client_os: OS, server_os: OS) -> Scene:
    """The same with the Windows pods on the node that the test has to itself."""
    return scene_of(pods, client_os, server_os, own_node)


@pytest.fixture
def relabel(changes: Changes) -> Iterator[Relabel]:
    """Changes of pods' labels and annotations, undone after the test."""
    one = Relabel(changes)
    yield one
    one.undo()
