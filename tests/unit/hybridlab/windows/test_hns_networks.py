# SPDX-License-Identifier: Apache-2.0
"""A network keeps the VSID with which it was created until it is removed, even if another VNI is
delivered later."""

import pytest

from hybridlab.windows.hns_networks import Hns, NetworkSpec

BLOCK, OTHER = "192.168.1.0/26", "192.168.2.0/26"
EXTERNAL = NetworkSpec(
    name="External", type="Overlay", subnet="192.168.255.0/30", gateway="192.168.255.1", vsid=9999
)


def new() -> Hns:
    return Hns("win", EXTERNAL)


def asked(vsid: int | None, block: str = BLOCK) -> NetworkSpec:
    stem = block.rpartition(".")[0]
    endpoint = (f"{stem}.2", "0e:2a:c0:a8:01:02")
    return NetworkSpec(
        name="Calico",
        type="Overlay",
        subnet=block,
        gateway=f"{stem}.1",
        vsid=vsid,
        host_endpoint=endpoint,
    )


def networks(hns: Hns) -> dict[str, int | None]:
    return {network.name: network.vsid for network in hns.networks}


def remove(hns: Hns) -> tuple[str, ...]:
    assert hns.pod_network is not None
    return hns.remove_network(hns.pod_network.id)


def test_the_first_vni_is_taken_and_a_later_one_is_not() -> None:
    hns = new()
    assert (hns.vsid, networks(hns)) == (None, {"External": 9999})
    hns.ensure_pod_network(asked(4096))
    made = hns.pod_network
    hns.ensure_pod_network(asked(4097))
    assert hns.pod_network is made
    assert networks(hns) == {"External": 9999, "Calico": 4096}


def test_a_network_made_anew_takes_the_vni_delivered_meanwhile() -> None:
    hns = new()
    assert hns.ensure_pod_network(asked(4096)) == ()
    hns.attach("uid", "sandbox", "192.168.1.3", "0e:2a:c0:a8:01:03")
    assert hns.attached("uid")
    assert remove(hns) == ("uid",)
    assert (hns.endpoints, hns.vsid, hns.attached("uid")) == ((), None, False)
    assert hns.ensure_pod_network(asked(4097)) == ()
    assert hns.vsid == 4097


def test_another_block_makes_the_network_anew_and_hands_over_the_pods_that_lost_theirs() -> None:
    hns = new()
    hns.ensure_pod_network(asked(4096))
    hns.attach("uid", "sandbox", "192.168.1.3", "0e:2a:c0:a8:01:03")
    assert hns.ensure_pod_network(asked(4097, OTHER)) == ("uid",)
    assert (hns.vsid, hns.attached("uid")) == (4097, False)
    assert [network.name for network in hns.networks] == ["External", "Calico"]


def test_a_network_without_a_vsid_stays_without_one() -> None:
    hns = new()
    hns.ensure_pod_network(asked(None))
    hns.ensure_pod_network(asked(None))
    assert networks(hns) == {"External": 9999, "Calico": None}
    assert hns.host_endpoint == "192.168.1.2"


def test_endpoints_are_the_host_s_own_and_those_of_pods() -> None:
    hns = new()
    hns.ensure_pod_network(asked(4096))
    hns.attach("uid", "sandbox", "192.168.1.3", "0e:2a:c0:a8:01:03")
    assert [(endpoint.name, endpoint.address) for endpoint in hns.endpoints] == [
        ("Calico_ep", "192.168.1.2"),
        ("sandbox_Calico", "192.168.1.3"),
    ]
    hns.detach("uid")
    assert [endpoint.name for endpoint in hns.endpoints] == ["Calico_ep"]


def test_an_endpoint_needs_a_network() -> None:
    with pytest.raises(ValueError, match="no HNS network"):
        new().attach("uid", "sandbox", "192.168.1.3", "0e:2a:c0:a8:01:03")


def test_faults_break_the_rule() -> None:
    hns = new()
    hns.ensure_pod_network(asked(4096))
    hns.faults.follows_delivered["one"] = True
    hns.ensure_pod_network(asked(4097))
    assert hns.vsid == 4097
    hns.faults.follows_delivered.clear()
    hns.faults.remembers_vsid["two"] = True
    remove(hns)
    hns.ensure_pod_network(asked(4098))
    assert hns.vsid == 4097


def test_whoever_listens_hears_every_change() -> None:
    hns, heard = new(), []
    hns.on_change(lambda: heard.append((hns.vsid, hns.host_endpoint)))
    hns.ensure_pod_network(asked(4096))
    hns.ensure_pod_network(asked(4097))
    hns.set_vsid(5000)
    remove(hns)
    assert heard == [(4096, "192.168.1.2"), (5000, "192.168.1.2"), (None, None)]
