"""A network keeps the VSID it was made with, also when another VNI is delivered later, until it is removed."""

import pytest

from hybridlab.windows.hns_networks import EXTERNAL_VSID, Hns

BLOCK = "192.168.1.0/26"


def networks(hns: Hns) -> dict[str, int]:
    return {network.name: network.vsid for network in hns.networks}


def remove(hns: Hns) -> tuple[str, ...]:
    assert hns.pod_network is not None
    return hns.remove_network(hns.pod_network.id)


def test_the_first_vni_is_taken_and_a_later_one_is_not() -> None:
    hns = Hns("win")
    assert (hns.vsid, networks(hns)) == (None, {"External": EXTERNAL_VSID})
    hns.ensure_pod_network(BLOCK, 4096)
    made = hns.pod_network
    hns.ensure_pod_network(BLOCK, 4097)
    assert hns.pod_network is made
    assert networks(hns) == {"External": EXTERNAL_VSID, "Calico": 4096}


def test_a_network_made_anew_takes_the_vni_delivered_meanwhile() -> None:
    hns = Hns("win")
    assert hns.ensure_pod_network(BLOCK, 4096) == ()
    hns.attach("uid", "sandbox", "192.168.1.3", "0e:2a:c0:a8:01:03")
    assert hns.attached("uid")
    assert remove(hns) == ("uid",)
    assert (hns.endpoints, hns.vsid, hns.attached("uid")) == ((), None, False)
    assert hns.ensure_pod_network(BLOCK, 4097) == ()
    assert hns.vsid == 4097


def test_another_block_makes_the_network_anew_and_hands_over_the_pods_that_lost_theirs() -> None:
    hns = Hns("win")
    hns.ensure_pod_network(BLOCK, 4096)
    hns.attach("uid", "sandbox", "192.168.1.3", "0e:2a:c0:a8:01:03")
    assert hns.ensure_pod_network("192.168.2.0/26", 4097) == ("uid",)
    assert (hns.vsid, hns.attached("uid")) == (4097, False)
    assert [network.name for network in hns.networks] == ["External", "Calico"]


def test_windows_takes_no_vni_below_4096() -> None:
    hns = Hns("win")
    with pytest.raises(ValueError, match="Windows does not support VXLANVNI < 4096"):
        hns.ensure_pod_network(BLOCK, 4095)
    assert hns.pod_network is None


def test_endpoints_are_the_host_s_own_and_those_of_pods() -> None:
    hns = Hns("win")
    hns.ensure_pod_network(BLOCK, 4096)
    hns.attach("uid", "sandbox", "192.168.1.3", "0e:2a:c0:a8:01:03")
    assert [(endpoint.name, endpoint.address) for endpoint in hns.endpoints] == [
        ("Calico_ep", "192.168.1.2"),
        ("sandbox_Calico", "192.168.1.3"),
    ]
    hns.detach("uid")
    assert [endpoint.name for endpoint in hns.endpoints] == ["Calico_ep"]


def test_an_endpoint_needs_a_network() -> None:
    with pytest.raises(ValueError, match="no HNS network"):
        Hns("win").attach("uid", "sandbox", "192.168.1.3", "0e:2a:c0:a8:01:03")


def test_faults_break_the_rule() -> None:
    hns = Hns("win")
    hns.ensure_pod_network(BLOCK, 4096)
    hns.faults.follows_vni.add("one")
    hns.ensure_pod_network(BLOCK, 4097)
    assert hns.vsid == 4097
    hns.faults.follows_vni.clear()
    hns.faults.remembers_vsid.add("two")
    remove(hns)
    hns.ensure_pod_network(BLOCK, 4098)
    assert hns.vsid == 4097


def test_whoever_listens_hears_every_change() -> None:
    hns, heard = Hns("win"), []
    hns.on_change(lambda: heard.append(hns.vsid))
    hns.ensure_pod_network(BLOCK, 4096)
    hns.ensure_pod_network(BLOCK, 4097)
    hns.set_vsid(5000)
    remove(hns)
    assert heard == [4096, 5000, None]
