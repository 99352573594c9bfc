"""``hybridlab policy``: manifests and tables in, what each pod gets out; the documentation's examples are true."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from hybridlab.cli.main import main

ROOT = Path(__file__).parents[4]
EXAMPLES = ROOT / "docs" / "examples" / "policy"
GOLDEN = ROOT / "tests" / "golden" / "windows-policy"
SHOP = str(EXAMPLES / "shop.yaml")
DOCUMENTED = re.findall(
    r"```console\n\$ hybridlab (policy [^\n]*)\n(.*?)```",
    (ROOT / "docs/policy.md").read_text(),
    re.S,
)


@pytest.mark.parametrize(("command", "expected"), DOCUMENTED)
def test_the_documentations_examples_give_what_it_says(
    command: Any, expected: Any, capsys: Any, monkeypatch: Any
) -> None:
    monkeypatch.chdir(EXAMPLES)
    assert main(command.split()) == 0
    assert capsys.readouterr().out == expected


def test_there_are_examples_in_the_documentation() -> None:
    assert len(DOCUMENTED) == 4


def answered(capsys: Any, *arguments: str, code: int = 0) -> Any:
    assert main(["policy", *arguments, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def test_json_says_for_each_pod_its_system_and_what_it_gets(capsys: Any) -> None:
    found = answered(
        capsys, SHOP, str(EXAMPLES / "staged.yaml"), "--probes", str(EXAMPLES / "probes.yaml")
    )
    assert [(name, pod["os"]) for name, pod in found["pods"].items()] == [
        ("shop/web", "windows"),
        ("shop/client", "linux"),
    ]
    web = found["pods"]["shop/web"]
    assert [acl["Action"] for acl in web["acls"] if acl["Direction"] == "In"] == [
        "Allow",
        "Block",
        "Allow",
    ]
    assert web["left_out"][0]["rule"] == "StagedNetworkPolicy shop/soon"
    assert [probe["verdict"] for probe in found["probes"]] == ["block", "block"]
    assert (found["assumed"], found["not_read"]) == ([], [])


def test_a_panic_is_an_answer(capsys: Any, tmp_path: Any) -> None:
    manifest = (EXAMPLES / "tiers.yaml").read_text().replace("443", "80")
    (tmp_path / "same.yaml").write_text(manifest)
    found = answered(
        capsys, SHOP, str(tmp_path / "same.yaml"), "--probes", str(EXAMPLES / "probes.yaml")
    )
    assert found["pods"]["shop/web"]["panic"] == "bitset said no end of range"
    assert found["probes"][0]["verdict"] == "panic"


def test_what_no_object_says_is_made_up_and_named(capsys: Any, tmp_path: Any) -> None:
    pod = "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {nodeSelector: {kubernetes.io/os: windows}}}"
    (tmp_path / "pod.yaml").write_text(pod)
    found = answered(capsys, str(tmp_path / "pod.yaml"))
    assert (found["pods"]["default/p"]["os"], found["pods"]["default/p"]["address"]) == (
        "windows",
        "192.168.0.1",
    )
    assert any("192.168.0.1" in line for line in found["assumed"])
    assert any("no Node of Windows" in line for line in found["assumed"])


def test_an_object_that_cannot_be_read_is_named_and_the_exit_code_says_so(
    capsys: Any, tmp_path: Any
) -> None:
    head = "apiVersion: projectcalico.org/v3, kind: NetworkPolicy, metadata: {name: p, namespace: shop}"
    bad = f"{{{head}, spec: {{selector: a b}}}}"
    (tmp_path / "bad.yaml").write_text(bad)
    found = answered(capsys, SHOP, str(tmp_path / "bad.yaml"), code=4)
    assert found["not_read"][0].startswith("NetworkPolicy shop/p: selector 'a b'")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nosuch.yaml"], "nosuch.yaml: cannot be read"),
        (
            [SHOP, "--calico-version", "v3.28.2"],
            "--calico-version v3.28.2: not emulated: expected v3.29 or later",
        ),
        ([SHOP, "--probes", SHOP], "a probe is a mapping with from and to"),
    ],
)
def test_what_cannot_be_used_is_one_line_and_exit_code_4(
    arguments: Any, message: Any, capsys: Any
) -> None:
    assert main(["policy", *arguments]) == 4
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1
