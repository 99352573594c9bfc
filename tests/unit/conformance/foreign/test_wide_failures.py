# SPDX-License-Identifier: Apache-2.0
"""The number of requests after a failure of many paths grows with pods, never with paths."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from conformance.errors import Nonconformance
from conformance.expect.context import World
from conformance.journal.other_runs import OtherRuns
from conformance.model.endpoint import Addressing, Target
from conformance.model.observation import Verdict
from tests.unit.conformance.builders import a_workload, an_expect, an_object
from tests.unit.conformance.expect.stand_ins import ScriptedProber
from tests.unit.conformance.foreign.clusters import V3, Cluster, known

POLICIES = ("NetworkPolicy", "GlobalNetworkPolicy", "Tier", "HostEndpoint")


def requests(number: int, **selects: Any) -> Counter[str]:
    """Count the requests by kind while ``number`` clients reach none of as many servers.

    ``selects``: the rule of a foreign policy.
    """
    cluster = Cluster(V3)
    theirs = an_object("theirs", types=["Ingress"], ingress=[{"action": "Allow"}], **selects)
    cluster.lists[V3, "GlobalNetworkPolicy"] = [theirs]
    clients = [a_workload(f"client-{place}") for place in range(number)]
    servers = [a_workload(f"server-{place}", address=f"10.0.0.{place}") for place in range(number)]
    prober = ScriptedProber({client.pod: [Verdict.TIMED_OUT] for client in clients})
    journals: Any = cluster
    world = World(others=known(cluster), runs=OtherRuns(journals, "ab12"))
    expect = an_expect(prober, "CONN-3", kept=[], world=world)
    with pytest.raises(Nonconformance, match=f"{number * number} of {number * number}"):
        expect.reachable(clients, [server.tcp(80) for server in servers], because="x")
    return Counter(cluster.asked)


@pytest.mark.parametrize("selects", [{"selector": "all()"}, {"selector": "app == 'db'"}])
def test_a_wide_failure_reads_policies_and_journals_once_a_look(selects: Any) -> None:
    few, many = requests(2, **selects), requests(6, **selects)
    assert many["GlobalNetworkPolicy"] > 0
    assert many["ConfigMap"] > 0
    for kind in (*POLICIES, "ConfigMap"):
        assert many[kind] == few[kind], f"{kind}: {few[kind]} for 4 paths, {many[kind]} for 36"
    assert many["Pod"] <= 3 * few["Pod"], "each pod is read once a look, not once a path"


def test_each_look_reads_anew_what_it_compares_with() -> None:
    cluster = Cluster(V3)
    cluster.lists[V3, "GlobalNetworkPolicy"] = [an_object("theirs", selector="all()")]
    there = known(cluster)
    client, server = a_workload("client"), a_workload("server")
    with there.one_look():
        there.excuse(client, server.tcp(80), "closed")
        there.excuse(server, client.tcp(80), "closed")
    once = Counter(cluster.asked)
    there.excuse(client, server.tcp(80), "closed")
    there.excuse(client, server.tcp(80), "closed")
    assert Counter(cluster.asked) == Counter({kind: 3 * count for kind, count in once.items()})


def test_the_clusters_dns_is_read_once_a_look() -> None:
    cluster = Cluster(V3)
    there = known(cluster)
    client, server = a_workload("client"), a_workload("server")
    nameless = Target(host="", port=53, protocol="udp", path=Addressing.EXTERNAL)
    with there.one_look():
        for source in (client, server, client):
            there.excuse(source, nameless, "closed", protocol="UDP")
    assert Counter(cluster.asked)["Pod"] == 1
