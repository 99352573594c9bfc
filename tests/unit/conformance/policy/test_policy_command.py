# SPDX-License-Identifier: Apache-2.0
"""``calico-conformance policy``: who reaches whom, and why; bad input is one line; the documented examples are true."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from conformance.cli import main

ROOT = Path(__file__).parents[4]
EXAMPLES = ROOT / "docs" / "examples" / "policy"
SHOP = str(EXAMPLES / "shop.yaml")
DOCUMENTED = re.findall(
    r"```console\n\$ calico-conformance (policy [^\n]*)\n(.*?)```",
    (ROOT / "docs/policy.md").read_text(),
    re.S,
)
KUBERNETES = "{{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {{name: x, namespace: shop}}, spec: {{{}}}}}"
POD = "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: shop}, spec: {containers: []}}"


@pytest.mark.parametrize(("command", "expected"), DOCUMENTED)
def test_the_documentations_examples_give_what_it_says(
    command: Any, expected: Any, capsys: Any, monkeypatch: Any
) -> None:
    monkeypatch.chdir(EXAMPLES)
    assert main(command.split()) == (1 if re.search("--fail-on|check", command) else 0)
    assert capsys.readouterr().out == expected


def test_there_are_examples_in_the_documentation() -> None:
    assert len(DOCUMENTED) == 4


def told(capsys: Any, tmp_path: Path, *manifests: str, options: tuple[str, ...] = ()) -> str:
    """What is printed for the shop and these manifests."""
    files = [SHOP]
    for number, manifest in enumerate(manifests):
        (tmp_path / f"{number}.yaml").write_text(manifest)
        files.append(str(tmp_path / f"{number}.yaml"))
    assert main(["policy", *files, *options]) == 0
    printed: str = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 100 or options
    return printed


def paths(
    capsys: Any, tmp_path: Path, *manifests: str, options: tuple[str, ...] = ()
) -> dict[tuple[str, str, str], list[str]]:
    """Verdicts by column, by names of source and destination, and protocol and ports."""
    given = told(capsys, tmp_path, *manifests, options=("--format", "json", *options))
    document = json.loads(given)
    ends = [[name for name, _ in group["ends"]] for group in document["groups"]]
    return {
        (source, destination, answer["at"]): answer["verdicts"]
        for row, places in zip(ends, document["matrix"], strict=True)
        for column, place in zip(ends, places, strict=True)
        for source in row
        for destination in column
        for answer in (document["answers"][place] if place is not None else ())
    }


def calico(spec: str, *, kind: str = "NetworkPolicy", name: str = "x") -> str:
    space = "" if "Global" in kind else ", namespace: shop"
    meta = f"metadata: {{name: {name}{space}}}"
    return f"{{apiVersion: projectcalico.org/v3, kind: {kind}, {meta}, spec: {{{spec}}}}}\n---\n"


def tier(name: str, spec: str) -> str:
    return f"{{apiVersion: projectcalico.org/v3, kind: Tier, metadata: {{name: {name}}}, spec: {{{spec}}}}}\n---\n"


def test_without_policies_everybody_reaches_everybody(capsys: Any, tmp_path: Path) -> None:
    printed = told(capsys, tmp_path)
    assert printed.startswith(
        "2 pods, 0 policies: 2 paths, as promised 2 open\nthese files contain no policy\n"
    )
    assert "closed" not in printed.partition("GROUPS")[0]


@pytest.mark.parametrize("command", ["", "diff", "ask", "check"])
def test_each_command_shows_examples_that_can_be_read(command: str, capsys: Any) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["policy", *filter(None, [command]), "--help"])
    printed = capsys.readouterr().out
    assert ended.value.code == 0
    assert f"  calico-conformance policy {command}".rstrip() in printed.partition("examples:")[2]
    assert max(map(len, printed.splitlines())) <= 100


def test_an_address_counts_once_and_a_pods_address_is_the_pod(capsys: Any, tmp_path: Path) -> None:
    twice = ("--address", "10.2.0.1", "--address", "10.2.0.1", "--address", "192.168.4.10")
    printed = told(capsys, tmp_path, options=twice)
    assert printed.startswith("2 pods, 0 policies: 6 paths")
    assert (
        main(["policy", "ask", SHOP, "--from", "10.2.0.1", "--to", "192.168.4.10", "--port", "1"])
        == 0
    )
    assert capsys.readouterr().out.startswith("10.2.0.1 to shop/")


def test_pods_that_no_policy_is_about_are_named(capsys: Any, tmp_path: Path) -> None:
    pods = (
        "{apiVersion: v1, kind: Pod, metadata: {name: agent}, spec: {hostNetwork: true}}\n---\n"
        "{apiVersion: v1, kind: Pod, metadata: {name: job}, status: {phase: Succeeded}}"
    )
    printed = " ".join(told(capsys, tmp_path, pods).split())
    assert "where no policy for pods applies: default/agent" in printed
    assert "ended, so no policy applies to them: default/job" in printed


def test_an_address_that_is_no_pod(capsys: Any, tmp_path: Path) -> None:
    rules = (EXAMPLES / "except.yaml").read_text()
    options = ("--address", "10.2.0.1", "--address=10.1.0.1")
    found = paths(capsys, tmp_path, rules, options=options)
    assert found["10.2.0.1", "shop/web", "TCP, UDP"] == ["open", "closed", "closed", "closed"]
    assert found["10.1.0.1", "shop/web", "TCP, UDP"] == ["closed"] * 4
    printed = told(capsys, tmp_path, rules, options=options)
    assert "on Windows, v3.29, v3.30 to v3.33: 1 path is closed that the policies open\n" in printed
    assert "negations (XPOL-1): a rule with a negated match" in printed


def test_what_is_no_text_is_one_line(capsys: Any, tmp_path: Path) -> None:
    (tmp_path / "binary.yaml").write_bytes(b"\x00\xac\xff")
    assert main(["policy", str(tmp_path / "binary.yaml")]) == 4
    assert capsys.readouterr().err.strip().endswith("binary.yaml is not UTF-8 text")


def test_a_list_by_hand_has_no_metadata(capsys: Any, tmp_path: Path) -> None:
    assert "shop/web" in told(capsys, tmp_path, "{apiVersion: v1, kind: List, items: []}")


def test_lists_as_kubectl_prints_them(capsys: Any, tmp_path: Path) -> None:
    policy = calico("ingress: [{action: Deny}]").removesuffix("\n---\n")
    for kind in ("List", "NetworkPolicyList"):
        entry = policy.replace("kind: NetworkPolicy, ", "") if kind != "List" else policy
        listed = (
            f"{{apiVersion: projectcalico.org/v3, kind: {kind}, metadata: {{}}, items: [{entry}]}}"
        )
        found = paths(capsys, tmp_path, listed)
        assert [set(verdicts) for verdicts in found.values()] == [{"closed"}, {"closed"}]


def test_ports_between_the_named_ones_are_told(capsys: Any, tmp_path: Path) -> None:
    rules = (
        "ingress: [{action: Deny, protocol: TCP, destination: {ports: ['81:90']}}, {action: Allow}]"
    )
    found = paths(capsys, tmp_path, calico(f"selector: app == 'web', {rules}"))
    assert found["shop/client", "shop/web", "TCP 81-90"] == ["closed"] * 4
    assert found["shop/client", "shop/web", "TCP 1-80,91-65535, UDP"] == ["open"] * 4


def test_linux_keeps_the_promise_in_every_column(capsys: Any, tmp_path: Path) -> None:
    rules = "ingress: [{action: Allow, source: {notNets: [192.0.2.0/24]}}]"
    found = paths(capsys, tmp_path, calico(f"selector: app == 'client', {rules}"))
    assert set(map(tuple, found.values())) == {("open",) * 4}


def test_protocols_that_a_rule_names(capsys: Any, tmp_path: Path) -> None:
    rules = calico("ingress: [{action: Allow, protocol: SCTP}, {action: Allow, protocol: 1}]")
    found = paths(capsys, tmp_path, rules)
    assert found["shop/client", "shop/web", "ICMP echo, SCTP"] == ["open"] * 4
    assert found["shop/client", "shop/web", "TCP, UDP"] == ["closed"] * 4


def test_policies_that_end_felix_are_told_first_hand(capsys: Any, tmp_path: Path) -> None:
    same = (EXAMPLES / "tiers.yaml").read_text().replace("443", "80")
    printed = told(capsys, tmp_path, same)
    assert (
        "DANGER: these end Felix on the node of shop/web, again and again, from v3.29 on: "
        "GlobalNetworkPolicy platform.web, ingress rule 1 and NetworkPolicy shop/web, ingress rule 1\n"
    ) in " ".join(printed.split()) + "\n"


def test_ties_are_said_by_release_alone(capsys: Any, tmp_path: Path) -> None:
    found = paths(
        capsys,
        tmp_path,
        calico("ingress: [{action: Deny}]", name="a.z"),
        calico("ingress: [{action: Allow}]", name="b"),
    )
    # up to v3.31 a name without a tier gets that of the default tier, which sorts behind a.z
    expected = ["not said", "not said", *["closed"] * 3]
    assert set(map(tuple, found.values())) == {tuple(expected)}
    found = paths(
        capsys,
        tmp_path,
        calico("ingress: [{action: Deny}]", name="e.z"),
        calico("ingress: [{action: Allow}]", name="f"),
    )
    # default.f is before e.z, and e.z before f
    told_by = ["not said", "not said", "open", "open", "closed"]
    assert set(map(tuple, found.values())) == {tuple(told_by)}


def test_what_was_assumed_and_what_was_passed_over(capsys: Any, tmp_path: Path) -> None:
    other = "{apiVersion: v1, kind: ConfigMap, metadata: {name: d, namespace: shop}}"
    pod = (
        "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: else}, spec: {containers: []}}"
    )
    policy = calico("ingress: []").replace(", namespace: shop", "")
    printed = " ".join(told(capsys, tmp_path, other, pod, policy).split())
    for sentence in (
        "assumed: no file describes the namespace, so it has no label except its name: else",
        "assumed: no address is known, so it is in no network except 0.0.0.0/0: else/p",
        "assumed: in namespace default, since no namespace is named: NetworkPolicy x",
        "selects no pod: NetworkPolicy default/x",
        "the system is not known, so it is judged as a Linux and as a Windows pod: else/p",
        "ignored, neither a pod nor a policy: ConfigMap shop/d",
    ):
        assert sentence in printed


def test_no_unread_policy_is_passed_over_in_silence(capsys: Any, tmp_path: Path) -> None:
    api = "apiVersion: cilium.io/v2, kind: CiliumNetworkPolicy"
    mine, second, elsewhere = (
        f"{{{api}, metadata: {{name: {name}, namespace: {space}}}, spec: {{}}}}"
        for name, space in (("a", "shop"), ("b", "shop"), ("c", "nowhere"))
    )
    printed = " ".join(told(capsys, tmp_path, mine, second, elsewhere).split())
    assert "not judged, since CiliumNetworkPolicy shop/a is not read" in printed
    assert (
        "also not read, or for no pod here: "
        "CiliumNetworkPolicy shop/b, CiliumNetworkPolicy nowhere/c"
    ) in printed


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        ("a: [", "manifest {file}:2: "),
        (
            "kind: Pod",
            "manifest {file}: a document is not a Kubernetes object, which needs apiVersion, kind",
        ),
        (
            calico("selector: a = 'b'"),
            "NetworkPolicy shop/x selector: selector \"a = 'b'\" cannot be read: an operator",
        ),
        (
            calico("ingress: [{action: Allow, from: []}]"),
            "NetworkPolicy shop/x ingress rule 1: unknown field from",
        ),
        (calico("order: .nan"), "NetworkPolicy shop/x order: a number is expected, not nan"),
        (
            calico("ingress: [{action: Allow, protocol: ICMP, icmp: {type: 256}}]"),
            "NetworkPolicy shop/x ingress rule 1 icmp: a type from 0 to 254 is expected",
        ),
        (
            calico("ingress: [{action: Allow, protocol: ICMP, icmp: {code: 1}}]"),
            "NetworkPolicy shop/x ingress rule 1 icmp: a type from 0 to 254 is expected",
        ),
        (
            calico("ingress: [{action: allow}]"),
            "NetworkPolicy shop/x ingress rule 1 action: one of Allow, Deny",
        ),
        (
            calico("ingress: {action: Allow}"),
            "NetworkPolicy shop/x ingress: a list is expected, not",
        ),
        (calico("egres: []"), "NetworkPolicy shop/x: unknown field egres"),
        (
            calico("selector: global()"),
            "NetworkPolicy shop/x selector: Calico refuses global() here",
        ),
        (
            calico("ingress: [{action: Allow, source: {selector: global()}}]"),
            "NetworkPolicy shop/x ingress rule 1 source selector: Calico refuses global() here",
        ),
        (
            calico("ingress: [{action: Allow, source: {namespaceSelector: global() && has(a)}}]"),
            "NetworkPolicy shop/x ingress rule 1 source namespaceSelector with further parts: Calico",
        ),
        (
            calico("types: [ingress]"),
            "NetworkPolicy shop/x types: one of Egress, Ingress is expected, not 'ingress'",
        ),
        (calico("order: first"), "NetworkPolicy shop/x order: a number is expected, not 'first'"),
        (
            calico("ingress: [{action: Allow, source: {nets: [10.0.0.0/33]}}]"),
            "NetworkPolicy shop/x ingress rule 1 source: '10.0.0.0/33' is no network",
        ),
        (
            calico("ingress: [{action: Allow, protocol: TCP, destination: {ports: ['90:80']}}]"),
            "NetworkPolicy shop/x ingress rule 1 destination: '90:80' is no range of ports",
        ),
        (
            calico("ingress: [{action: Allow, protocol: tpc}]"),
            "NetworkPolicy shop/x ingress rule 1: unknown protocol 'tpc'",
        ),
        (calico("tier: mine"), "NetworkPolicy shop/x is in tier mine, which no file describes"),
        (
            tier("mine", "defaultAction: Allow"),
            "Tier mine defaultAction: one of Deny, Pass is expected, not 'Allow'",
        ),
        (
            calico("", kind="AdminNetworkPolicy"),
            "AdminNetworkPolicy shop/x priority: a number is expected, not None",
        ),
        (
            "{apiVersion: v2, kind: NetworkPolicy, metadata: {name: x, namespace: shop}}",
            "NetworkPolicy shop/x: apiVersion 'v2' has no such policy",
        ),
        (
            calico("ingress: [{action: Allow, destination: {ports: [80]}}]"),
            "NetworkPolicy shop/x ingress rule 1: ports need protocol TCP, UDP or SCTP",
        ),
        (
            calico("ingress: [{action: Allow, protocol: ICMP, source: {notPorts: [80]}}]"),
            "NetworkPolicy shop/x ingress rule 1: ports need protocol TCP, UDP or SCTP",
        ),
        (
            calico("selector: {app: web}"),
            "NetworkPolicy shop/x selector: selector \"{'app': 'web'}\" cannot be read: a "
            "string is expected",
        ),
        (
            KUBERNETES.format("podSelector: {matchLabels: {tier: 1}}"),
            "Kubernetes NetworkPolicy shop/x podSelector: selector \"{'matchLabels': {'tier': 1}}\" cannot be read: "
            "values must be strings: write '1' with quotes, not 1",
        ),
        (
            KUBERNETES.format("podSelector: {}, ingress: [{ports: [{port: '80'}]}]"),
            "Kubernetes NetworkPolicy shop/x ingress rule 1: port '80' in quotes is a name, and a name needs a letter",
        ),
        (
            KUBERNETES.format("podSelector: {}, ingress: [{ports: [{port: 80, protocol: tcp}]}]"),
            "Kubernetes NetworkPolicy shop/x ingress rule 1: one of SCTP, TCP, UDP is expected, not 'tcp'",
        ),
        (
            KUBERNETES.format("podSelector: {}, ingress: [{ports: [{port: http, endPort: 90}]}]"),
            "Kubernetes NetworkPolicy shop/x ingress rule 1: endPort 90 beside port 'http', which is no number",
        ),
        (
            KUBERNETES.format("podSelector: {}, ingress: [{ports: [{endPort: 90}]}]"),
            "Kubernetes NetworkPolicy shop/x ingress rule 1: endPort 90 beside port None, which is no number",
        ),
        (
            KUBERNETES.format(
                "podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/24, except: [10.0.0.0/24]}}]}]"
            ),
            "Kubernetes NetworkPolicy shop/x ingress rule 1: an except entry must be a smaller "
            "part of its ipBlock",
        ),
        (
            KUBERNETES.format(
                "podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/24}, podSelector: {}}]}]"
            ),
            "Kubernetes NetworkPolicy shop/x ingress rule 1: a peer has an ipBlock and a selector: write two peers",
        ),
        (
            "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: shop, labels: {tier: 1}}, spec: {}}",
            "Pod shop/p: label tier must be a string: write '1' with quotes, not 1",
        ),
        (
            KUBERNETES.format("podSelector: {}, ingress: [{from: [{}]}]"),
            "Kubernetes NetworkPolicy shop/x ingress rule 1: a peer without podSelector, namespaceSelector and ipBlock",
        ),
        (POD + "\n---\n" + POD, "Pod shop/p appears twice"),
        (
            "{apiVersion: v1, kind: Pod, metadata: {namespace: shop}}",
            "an object without kind or name: ",
        ),
        (
            "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: [a]}",
            "Pod default/p: cannot be read: ",
        ),
        (
            "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {}, status: {podIP: x}}",
            "Pod default/p: 'x' is no address",
        ),
    ],
)
def test_bad_input_is_one_line_and_exit_code_4(
    manifest: str, said: str, capsys: Any, tmp_path: Path
) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(manifest)
    assert main(["policy", SHOP, str(file)]) == 4
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert printed.err.startswith(f"ERROR: {said.replace('{file}', str(file))}")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere.yaml"], "manifest nowhere.yaml cannot be read: No such file or directory"),
        ([SHOP, "--address", "there"], "'there' is no address"),
        (
            [str(EXAMPLES / "tiers.yaml")],
            "these files contain no pod, so there is no path to judge",
        ),
        (["diff", "-", "-", SHOP], "policy diff: standard input cannot be both OLD and NEW"),
        (
            ["diff", "v3.28", "v3.31", SHOP],
            "column 'v3.28': one of promise, windows, v3.29, v3.30, v3.31, v3.32, v3.33 is expected",
        ),
        (
            ["ask", SHOP, "--from", "shop/web", "--to", "shop/client"],
            "--port: a number from 1 to 65535 is expected, not none",
        ),
        (
            ["ask", SHOP, "--from", "shop/web", "--to", "shop/web", "--port", "1"],
            "there is no answer for shop/web and shop/web",
        ),
    ],
)
def test_arguments_that_cannot_be_used(arguments: list[str], said: str, capsys: Any) -> None:
    assert main(["policy", *arguments]) == 4
    assert capsys.readouterr().err == f"ERROR: {said}\n"
