# SPDX-License-Identifier: Apache-2.0
"""Looking into a host gives facts or ProbeBroken: ConvertTo-Json is understood, and silence
never counts as "none"."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import tree_sitter
import tree_sitter_pwsh

from conformance.errors import ProbeBroken
from conformance.kube.channels import ExecBroken
from conformance.kube.execute import ExecResult
from conformance.model.endpoint import Workload
from conformance.model.host import HnsSubnet, RemoteSubnet
from conformance.probe import hns, host
from conformance.probe.host import WITNESS, Hosts
from conformance.settings import load_timings
from tests.unit.conformance.builders import a_workload
from tests.unit.conformance.expect.stand_ins import Clock

NETWORK: dict[str, Any] = {
    "ID": "a1", "Name": "Calico", "Type": "Overlay", "ManagementIP": "10.0.0.14",
    "Subnets": [{"AddressPrefix": "192.168.4.0/26", "GatewayAddress": "192.168.4.1",
                 "Policies": [{"Type": "VSID", "VSID": 4096}]}],
}  # fmt: skip
REMOTE = {
    "DestinationPrefix": "192.168.1.0/26", "ProviderAddress": "10.0.0.11", "IsolationId": 4096,
    "DistributedRouterMacAddress": "66-0A-00-00-00-11",
}  # fmt: skip
ACL = {
    "Type": "ACL", "Id": "r1", "Action": "Allow", "Direction": "In", "Protocol": 6, "LocalAddresses": "",
    "RemoteAddresses": "10.1.0.0/16", "LocalPorts": "80", "RemotePorts": "", "Priority": 1000, "RuleType": "Switch",
}  # fmt: skip
ENDPOINT = {
    "ID": "e1", "Name": "x_Calico", "IPAddress": "192.168.0.5", "MacAddress": "0E-2A-c0-a8-00-05",
    "VirtualNetwork": "a1", "VirtualNetworkName": "Calico", "Policies": [{"Type": "OutBoundNAT"}, ACL],
}  # fmt: skip
Answer = str | bytes | int | Exception


@dataclass
class Node:
    """A Windows node that answers PowerShell from a script; the last answer lasts."""

    answers: dict[str, list[Answer]]
    asked: list[str] = field(default_factory=list)

    def run(self, workload: Workload, argv: Sequence[str], within: float) -> ExecResult:
        script = argv[-1]
        self.asked.append(script)
        known = self.answers[next(name for name in self.answers if name in script)]
        answer = known.pop(0) if len(known) > 1 else known[0]
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, int):
            return ExecResult(answer, b"", b"not emulated: this", 0.1)
        return ExecResult(0, answer if isinstance(answer, bytes) else answer.encode(), b"", 0.1)


def host_pod(address: str = "192.168.0.5") -> Workload:
    return a_workload("host", "windows", container="host", node="w1", address=address)


def hosts(**answers: Sequence[Answer]) -> tuple[Hosts, Node]:
    node = Node(
        {
            "witness": ["witness"],
            **{name.replace("_", "-"): list(known) for name, known in answers.items()},
        }
    )
    place: Callable[[str], Workload] = lambda name: host_pod()  # noqa: E731
    return Hosts(node.run, place, place, load_timings(), clock=Clock()), node


def text(*objects: dict[str, Any]) -> str:
    """As ConvertTo-Json writes them."""
    return json.dumps(objects[0] if len(objects) == 1 else objects) if objects else ""


@pytest.mark.parametrize("count", [1, 3])
def test_one_object_and_several_are_read_alike(count: int) -> None:
    one, _ = hosts(Get_HnsNetwork=[text(*[NETWORK] * count)])
    networks = one.hns_networks("w1")
    assert [network.name for network in networks] == ["Calico"] * count
    assert networks[0].subnets == (
        HnsSubnet(prefix="192.168.4.0/26", gateway="192.168.4.1", vsid=4096),
    )


@pytest.mark.parametrize(
    ("policies", "found", "shown"),
    [
        ([{"Type": "HostRoute"}, {"Type": "RemoteSubnetRoute", **REMOTE}], 1, True),
        ({"Type": "RemoteSubnetRoute", "Settings": REMOTE}, 1, True),
        ([{"Type": "HostRoute"}], 0, True),
        (None, 0, False),
    ],
    ids=["beside its type", "under Settings", "none", "no policies"],
)
def test_remote_subnets_are_read_in_either_shape(policies: Any, found: int, shown: bool) -> None:
    one, _ = hosts(Get_HnsNetwork=[text({**NETWORK, "Policies": policies})])
    network = one.hns_networks("w1")[0]
    subnet = RemoteSubnet(
        prefix="192.168.1.0/26", provider="10.0.0.11", mac="66:0a:00:00:00:11", vni=4096
    )
    assert (network.remote_subnets, network.shows_policies) == ((subnet,) * found, shown)


@pytest.mark.parametrize(
    ("health", "updated"),
    [
        ({"LastErrorCode": 0, "LastUpdateTime": 133212886189176072}, "2023-02-19T13:56:58Z"),
        ({"LastUpdateTime": 0}, ""),
        ({"LastUpdateTime": 2**63 - 1}, ""),
        ({"LastUpdateTime": "133212886189176072"}, ""),
        ("", ""),
        (None, ""),
    ],
)
def test_when_hns_last_changed_a_network_is_a_filetime_and_may_be_missing(
    health: Any, updated: str
) -> None:
    one, node = hosts(Get_HnsNetwork=[text({**NETWORK, "Health": health})])
    assert one.hns_networks("w1")[0].updated == updated
    assert "Health" in node.asked[0]


@pytest.mark.parametrize(("answer", "said"), [("null", "HNS gave no answer"), (1, "exit status 1")])
def test_an_hns_that_fails_while_other_commands_answer_is_blamed_before_the_probe(
    answer: Answer, said: str
) -> None:
    failing, _ = hosts(Get_HnsNetwork=[answer])
    with pytest.raises(ProbeBroken) as broken:
        failing.hns_networks("w1")
    assert str(broken.value).startswith(
        "HNS of node w1 fails: Get-HnsNetwork does not answer, but another command in the same HostProcess pod does; "
        "check the services hns and vmcompute there ("
    )
    assert said in str(broken.value)


@pytest.mark.parametrize("witness", ["", "wit", 1])
def test_where_no_command_answers_hns_is_not_blamed(witness: Answer) -> None:
    failing, _ = hosts(Get_HnsNetwork=["null"], witness=[witness])
    with pytest.raises(ProbeBroken) as broken:
        failing.hns_networks("w1")
    assert "HNS of node" not in str(broken.value)


def test_nothing_is_none_only_when_the_pod_shows_that_output_arrives() -> None:
    there, node = hosts(Get_HnsEndpoint=[""])
    assert there.hns_endpoints("w1") == []
    assert node.asked[-1] == WITNESS
    silent, _ = hosts(Get_HnsEndpoint=[""], witness=[""])
    with pytest.raises(
        ProbeBroken, match="empty output, and it is not known whether the output was lost"
    ):
        silent.hns_endpoints("w1")


def test_lists_inside_may_be_single_absent_or_wrapped_and_a_byte_order_mark_is_no_error() -> None:
    subnet = {
        **NETWORK["Subnets"][0],
        "Policies": {"value": [{"Type": "VSID", "VSID": "4097"}], "Count": 1},
    }
    shapes: list[dict[str, Any]] = [
        {**NETWORK, "Subnets": subnet},
        {**NETWORK, "Type": "L2Bridge", "Subnets": None},
    ]
    one, _ = hosts(Get_HnsNetwork=[b"\xef\xbb\xbf" + text(*shapes).encode() + b"\r\n"])
    first, second = one.hns_networks("w1")
    assert [subnet.vsid for subnet in first.subnets] == [4097]
    assert second.subnets == ()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ('{"ID": "a1", "Na', "garbled output"),
        ('"Calico"', "the output is not a list of objects"),
        (text({**NETWORK, "Name": None, "ID": None}), "neither Name nor ID"),
        (text({**NETWORK, "ID": None}), "has no ID"),
        ("null", "HNS gave no answer"),
        ('""', "HNS gave no answer"),
        ("[null]", "the output is not a list of objects"),
        (text({**NETWORK, "Subnets": [None]}), "a subnet of an HNS network is not an object: None"),
        (
            text({**NETWORK, "Subnets": "192.168.4.0/26"}),
            "a subnet of an HNS network is not an object: '192.168.4.0/26'",
        ),
        (
            text({**NETWORK, "Subnets": [], "Ipams": [{"Subnets": NETWORK["Subnets"]}]}),
            "subnets under Ipams",
        ),
        (
            text({**NETWORK, "Subnets": [{"AddressPrefix": "x", "Policies": [{"VSID": "many"}]}]}),
            "VSID is not a number",
        ),
        (1, "exit status 1: not emulated: this"),
        (b"\xff\xfe{\0}\0", "garbled output"),
        (ExecBroken("cut", transport="cut"), "cut"),
    ],
    ids=[
        "cut",
        "no object",
        "nothing",
        "no id",
        "null",
        "empty text",
        "null in a list",
        "null for a subnet",
        "text for subnets",
        "subnets elsewhere",
        "no number",
        "failed",
        "another encoding",
        "broken exec",
    ],
)
def test_whatever_cannot_be_read_is_a_broken_probe(answer: Answer, words: str) -> None:
    one, node = hosts(Get_HnsNetwork=[answer])
    with pytest.raises(ProbeBroken, match=words):
        one.hns_networks("w1")
    assert len(node.asked) >= 1


def test_an_error_that_passes_is_asked_again_and_what_cannot_start_is_not() -> None:
    cut = ExecBroken("cut", transport="cut")
    passing, node = hosts(Get_HnsNetwork=[cut, cut, text(NETWORK)])
    assert passing.hns_networks("w1")[0].id == "a1"
    assert len(node.asked) == 3
    hopeless, node = hosts(
        Get_HnsNetwork=[ExecBroken("no such program", transport="x", retryable=False)]
    )
    with pytest.raises(ProbeBroken, match=r"no such program .1 try"):
        hopeless.hns_networks("w1")
    assert len(node.asked) == 1


def test_the_access_rules_are_those_of_the_pods_endpoint_and_only_rules() -> None:
    other = {**ENDPOINT, "ID": "e2", "IPAddress": "192.168.0.6", "Policies": []}
    one, _ = hosts(Get_HnsEndpoint=[text(other, ENDPOINT)])
    (rule,) = one.acl_list("w1", host_pod())
    assert (rule.id, rule.action, rule.direction, rule.protocol, rule.remote_addresses, rule.priority) == (
        "r1", "Allow", "In", "6", "10.1.0.0/16", 1000,
    )  # fmt: skip
    assert one.acl_list("w1", host_pod(address="192.168.0.6")) == ()


def test_a_pod_without_an_endpoint_is_a_broken_probe_and_no_empty_list() -> None:
    one, _ = hosts(Get_HnsEndpoint=[text(ENDPOINT)])
    with pytest.raises(
        ProbeBroken, match=r"no HNS endpoint for .* 192.168.0.9; it has 192.168.0.5"
    ):
        one.acl_list("w1", host_pod(address="192.168.0.9"))


def test_removing_a_network_takes_a_cut_stream_for_what_it_is_and_a_failure_for_a_failure() -> None:
    cut, _ = hosts(Remove_HnsNetwork=[ExecBroken("the connection was cut", transport="cut")])
    assert "cut" in cut.remove_hns_networks("w1", ["B", "C"])
    failed, _ = hosts(Remove_HnsNetwork=[1])
    with pytest.raises(ProbeBroken, match="exit status 1"):
        failed.remove_hns_networks("w1", ["B", "C"])
    refused, _ = hosts(Remove_HnsNetwork=[ExecBroken("refused", transport="403", retryable=False)])
    with pytest.raises(ExecBroken):
        refused.remove_hns_networks("w1", ["B", "C"])


def test_networks_that_are_not_calicos_may_have_any_shape() -> None:
    odd: list[dict[str, Any]] = [
        {"ID": "x", "Name": None, "Type": None, "Subnets": [None]},
        {"ID": None, "Name": "nat", "Type": "nat", "Subnets": [{"GatewayAddress": "172.20.0.1"}]},
        {"ID": "y", "Name": "ICS", "Type": "ICS", "Subnets": "none"},
    ]
    one, _ = hosts(Get_HnsNetwork=[text(*odd, NETWORK)])
    assert [(network.name, len(network.subnets)) for network in one.hns_networks("w1")] == [
        ("", 0), ("nat", 0), ("ICS", 0), ("Calico", 1),
    ]  # fmt: skip


def test_names_in_the_hosts_code_page_are_no_error() -> None:
    one, _ = hosts(
        Get_HnsNetwork=[
            text(NETWORK, {**NETWORK, "Name": "Br?cke"}).encode().replace(b"?", b"\x81")
        ]
    )
    assert [network.name for network in one.hns_networks("w1")] == ["Calico", "Br\ufffdcke"]


def test_files_command_lines_and_updates_in_the_hosts_code_page_are_no_error() -> None:
    one, _ = hosts(
        Get_Content=[b'{"name": "Br\x81cke"}'],
        Get_CimInstance=[
            b"C:\\M\x81ller\\kube-proxy.exe --enable-dsr=true\r\n",
            b"KB5044281\r\n\x81\r\n",
        ],
    )
    assert one.cni_configuration("w1") == '{"name": "Br\ufffdcke"}'
    assert one.command_lines("w1", "kube-proxy.exe") == [
        "C:\\M\ufffdller\\kube-proxy.exe --enable-dsr=true"
    ]
    assert one.updates("w1")[0] == "KB5044281"


def test_the_cni_configuration_is_looked_for_where_calico_writes_it_and_then_where_platforms_have_it() -> (
    None
):
    one, node = hosts(Get_Content=["{}"])
    assert one.cni_configuration("w1", [r"D:\mine\10-calico.conflist"]) == "{}"
    script = node.asked[-1]
    places = (
        r"D:\mine\10-calico.conflist",
        r"C:\etc\cni\net.d",
        r"C:\k\azurecni\netconf",
        r"Amazon\EKS\cni",
        "rke2",
    )
    found = [script.index(place) for place in places]
    assert found == sorted(found)
    nowhere, _ = hosts(Get_Content=[""])
    with pytest.raises(ProbeBroken, match="empty output"):
        nowhere.cni_configuration("w1")


HOSTILE = r"C:\it's\10.conf'; Remove-Item C:\* -Recurse; '"


@pytest.mark.parametrize("quote", "'\u2018\u2019\u201a\u201b")
def test_a_path_of_the_cluster_is_text_to_powershell_whatever_it_holds(quote: str) -> None:
    path = HOSTILE.replace("'", quote)
    one, node = hosts(Get_Content=["{}"])
    one.file("w1", path)
    one.cni_configuration("w1", [path])
    for script in node.asked[-2:]:
        # the grammar that is installed here takes the usual quote alone for one
        tree = tree_sitter.Parser(tree_sitter.Language(tree_sitter_pwsh.language())).parse(
            script.replace(quote, "'").encode()
        )
        commands = [
            found.text
            for found in _nodes(tree.root_node)
            if found.type == "command_name" and found.text
        ]
        assert b"Remove-Item" not in commands
        assert b"Get-Content" in commands
        assert path.replace(quote, quote * 2) in script


def _nodes(node: tree_sitter.Node) -> list[tree_sitter.Node]:
    return [node, *(each for child in node.children for each in _nodes(child))]


@pytest.mark.parametrize("part", ['"', "%COMSPEC%", "\n", "\r", "\0"])
def test_what_cmd_would_obey_within_quotes_is_not_asked(part: str) -> None:
    one, node = hosts(Get_Content=["{}"])
    with pytest.raises(ProbeBroken, match=r"is not sent to a Windows host"):
        one.file("w1", rf"C:\k{part} & calc")
    assert node.asked == []


def test_networks_are_matched_as_felix_does_and_within_a_bound() -> None:
    names = ["Calico", "CALICO-2", "my-calico", "nat", "a" * 50_000 + "!"]
    found = {
        expression: [
            name[:9]
            for name in names
            if hns.network(NETWORK | {"Name": name, "Subnets": []}, expression).pods
        ]
        for expression in ("calico.*", "^calico", r"(?:a+)+$", r"\Acalico\z")
    }
    assert found == {
        "calico.*": ["Calico", "CALICO-2", "my-calico"],
        "^calico": ["Calico", "CALICO-2"],
        r"(?:a+)+$": [],
        r"\Acalico\z": ["Calico"],
    }
    half = hns.network(NETWORK | {"Name": "calico\ud800"}, "calico")
    assert half.pods


def test_command_lines_of_a_program_are_read_or_none_when_it_does_not_run() -> None:
    one, node = hosts(Get_CimInstance=["kube-proxy.exe --v=3\r\n\r\n"])
    assert one.command_lines("w1", "kube-proxy.exe") == ["kube-proxy.exe --v=3"]
    assert "-Filter 'Name=''kube-proxy.exe'''" in node.asked[-1]
    idle, _ = hosts(Get_CimInstance=[""])
    assert idle.command_lines("w1", "kube-proxy.exe") == []


def test_a_service_is_installed_or_not() -> None:
    one, node = hosts(Get_Service=["Running\r\n"])
    assert one.service("w1", "CalicoFelix") == "Running"
    assert "Get-Service -Name CalicoFelix -ErrorAction SilentlyContinue" in node.asked[-1]
    without, _ = hosts(Get_Service=[""])
    assert without.service("w1", "CalicoFelix") == ""


def test_updates_are_the_ids_that_windows_lists_or_none_where_it_lists_none() -> None:
    one, node = hosts(Get_CimInstance=["KB5044281\r\nKB5042350\r\n"])
    assert one.updates("w1") == ["KB5044281", "KB5042350"]
    assert node.asked[-1] == (
        "$ErrorActionPreference = 'Stop'; Get-CimInstance Win32_QuickFixEngineering | ForEach-Object { $_.HotFixID }"
    )
    silent, _ = hosts(Get_CimInstance=[""])
    assert silent.updates("w1") == []


def test_every_script_stops_at_its_first_error_and_survives_cmd() -> None:
    one, node = hosts(
        Get_HnsEndpoint=[text(ENDPOINT)],
        Remove_HnsNetwork=[""],
        Get_HnsNetwork=[""],
        Get_Content=["{}"],
    )
    one.hns_networks("w1")
    one.hns_endpoints("w1")
    one.cni_configuration("w1", ["C:\\x"])
    one.remove_hns_networks("w1", ["B", "C"])
    scripts = [script for script in node.asked if script != WITNESS]
    assert len(scripts) == 4
    assert all(script.startswith("$ErrorActionPreference = 'Stop'; ") for script in scripts)
    assert not [script for script in node.asked if set(script) & set('"%\r\n')]
    assert all(" " in script for script in node.asked), (
        "what has no blank is not quoted, and cmd reads its |"
    )
    assert (
        host.POWERSHELL[0].lower() == r"c:\windows\system32\windowspowershell\v1.0\powershell.exe"
    )


def test_a_capture_by_pktmon_is_one_line_without_what_cmd_would_read_and_removes_its_file() -> None:
    there, node = hosts(pktmon=["packets\r\nof it\r\n"])
    assert there.packets_on_windows("w1", 1.5, ["10.9.0.7", "10.1.0.5"]) == "packets\nof it"
    script = node.asked[-1]
    assert not set('"%\n') & set(script)
    assert "-Pattern '10.1.0.5', '10.9.0.7' " in script
    assert "Start-Sleep -Milliseconds 1500 }" in script
    assert (
        script.index(" start ")
        < script.index(" stop ")
        < script.index("etl2txt")
        < script.rindex("Remove-Item")
    )
    refusing, _ = hosts(pktmon=[1])
    with pytest.raises(ProbeBroken, match="pktmon: exit status 1"):
        refusing.packets_on_windows("w1", 1.5, ["10.9.0.7"])


def test_a_capture_by_pktmon_is_powershell() -> None:
    script = host.STOP + host.PKTMON.format(
        name="1f", megabytes=4, milliseconds=1500, bound=62, lines=300, addresses="'10.9.0.7'"
    )
    late = (
        script.partition("$late = ")[2].partition("; $made = ")[0].replace("' + $file + '", "FILE")
    )
    of_late = late.replace("' + $pktmon + '", r"C:\pktmon.exe").strip("'").partition("-Command ")[2]
    assert (
        of_late
        == r"Start-Sleep 62; if (Test-Path FILE.etl) { C:\pktmon.exe stop; Remove-Item FILE.* }"
    )
    for one in (script, of_late):
        root = (
            tree_sitter.Parser(tree_sitter.Language(tree_sitter_pwsh.language()))
            .parse(one.encode())
            .root_node
        )
        assert not root.has_error, one


def test_pktmon_begins_only_once_something_outside_the_pod_will_end_it() -> None:
    """A pod that is removed within these seconds runs no ``finally``, and pktmon is the host's."""
    there, node = hosts(pktmon=["packets"])
    there.packets_on_windows("w1", 8.0, ["10.9.0.7"])
    script = node.asked[-1]
    made, refused = (
        script.index("-MethodName Create"),
        script.index("throw ('nothing would end pktmon"),
    )
    assert made < refused < script.index("& $pktmon start ")
    assert f"Start-Sleep {8 + host.PKTMON_LATE};" in script
    assert script.count(" stop") == 2, "in its own time, and later where its file was left"


def test_a_capture_by_pktmon_takes_little_of_a_node_s_disk_and_of_the_evidence() -> None:
    there, node = hosts(pktmon=["packets"])
    there.packets_on_windows("w1", 1.5, ["10.9.0.7"])
    script = node.asked[-1]
    assert " --pkt-size 160 --file-size 4 " in script, "bytes of a packet, MB of the file"
    assert "-Context 1,0 | Select-Object -First 300 | " in script, "packets with the line before"
    assert "Start-Sleep 62; " in script, "s, until the capture ends in any case"
