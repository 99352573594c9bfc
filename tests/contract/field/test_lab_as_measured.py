# SPDX-License-Identifier: Apache-2.0
"""The lab compared with calibrations of real nodes.

Its assumptions agree with the measurements, and programs on its Windows hosts print the recorded
fields, types and classes of values; every difference is listed.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jsonschema
import pytest

from conformance.calibrate import compare
from conformance.calibrate.record import CUT, read
from hybridlab.assumed import assumptions
from tests.contract.field import shapes
from tests.lab.lab_process import running_lab
from tests.lab.measuring import measured

ROOT = Path(__file__).parents[3]
FIELD = ROOT / "tests" / "golden" / "field"
FILES = sorted(FIELD.glob("*.json"))
SCHEMA = json.loads((ROOT / "docs" / "schema" / "calibration.schema.json").read_text("utf-8"))


PROFILES = {"vxlan": "small", "bgp": "manual-bgp", "policy-only": "eks-vpc"}
"""The lab that answers in the place of nodes, by the mode of their cluster."""


@functools.cache
def answers(mode: str | None) -> Sequence[Mapping[str, str]]:
    """What the lab's own hosts print."""
    profile = PROFILES.get(mode or "", "small")
    with TemporaryDirectory() as folder, running_lab(Path(folder), "--profile", profile) as lab:
        found = measured(lab.kubeconfig, Path(folder) / "reports", "pods", "host programs")
    assert found["not_measured"] == []
    return tuple(found["programs"])


def differences(calibration: Mapping[str, Any], printed: Sequence[Mapping[str, str]]) -> list[str]:
    """Return a line for each difference between the lab and the measured nodes; ``printed``: the
    output of the lab's hosts."""
    lab = [{"by": "lab", "id": name, **one} for name, one in assumptions().items()]
    found = compare.compared(lab, calibration["measurements"], emulated=False)
    return [
        f"{one['id']}: the lab has {one['value']}, measured {', '.join(map(str, one['observed']))}"
        for one in found
        if one["state"] == compare.DIFFERENT
    ] + shapes.differences(calibration["programs"], printed)


def problems(
    calibration: Mapping[str, Any],
    listed: Sequence[str],
    printed: Callable[[str | None], Sequence[Mapping[str, str]]] = answers,
) -> list[str]:
    """What is wrong with a file below tests/golden/field, or with the lab beside it."""
    validator = jsonschema.Draft202012Validator(SCHEMA)
    wrong = [f"{e.json_path}: {e.message[:200]}" for e in validator.iter_errors(calibration)]
    if wrong:
        return wrong
    if calibration["evidence"] != "field":
        return ["it is of emulated nodes, which show nothing about the lab"]
    found = differences(calibration, printed(calibration["mode"]))
    return [f"not listed: {line}" for line in found if line not in listed] + [
        f"listed and no longer so: {line}" for line in listed if line not in found
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_lab_is_as_real_nodes_were(path: Path) -> None:
    beside = path.with_suffix(".differences.txt")
    listed = beside.read_text("utf-8").splitlines() if beside.exists() else []
    assert problems(read(path), listed) == []


PRINTED = [{"node": "windows-node-1", "program": "hns.ps1", "output": "{}", "exit_code": "0"}]


def a_calibration(**values: Any) -> dict[str, Any]:
    measured = [
        {"id": name, "node": "windows-node-1", "system": "windows", "unit": "", "values": [value]}
        for name, value in values.items()
    ]
    node = {
        "name": "windows-node-1",
        "os": "windows",
        "build": "20348.2762",
        "image": "Windows Server 2022 Datacenter",
        "kernel": "10.0.20348.2762",
        "runtime": "containerd://1.7.24",
    }
    return {
        "kind": "calico-conformance calibration",
        "schema": 1,
        "at": "2026-11-29T11:00:00Z",
        "evidence": "field",
        "seconds": 300.0,
        "kubernetes": "v1.34.1",
        "calico": "v3.31.2",
        "mode": "vxlan",
        "platform": "self-managed",
        "nodes": [node],
        "measurements": measured,
        "not_measured": [],
        "programs": PRINTED,
        "assumptions": [],
    }


SYN = "syn-again: the lab has 1, measured 3.01"


@pytest.mark.parametrize(
    ("calibration", "listed", "found"),
    [
        (a_calibration(**{"reset/linux": "RESET ConnectionReset/10054"}), [], []),
        (a_calibration(**{"syn-again": 3.01}), [], [f"not listed: {SYN}"]),
        (a_calibration(**{"syn-again": 3.01}), [SYN], []),
        (a_calibration(**{"syn-again": 1.01}), [SYN], [f"listed and no longer so: {SYN}"]),
        (
            a_calibration() | {"evidence": "lab"},
            [],
            ["it is of emulated nodes, which show nothing about the lab"],
        ),
        (a_calibration() | {"schema": 2}, [], ["$.schema: 1 was expected"]),
    ],
    ids=["the same", "another", "listed", "mended", "a lab's", "another schema"],
)
def test_a_file_that_differs_from_the_lab_fails_until_it_is_listed(
    calibration: dict[str, Any], listed: list[str], found: list[str]
) -> None:
    assert problems(calibration, listed, lambda mode: PRINTED) == found


@pytest.mark.parametrize(
    ("recorded", "lab", "found"),
    [
        ('{"a": 1, "b": ["x"]}', '{"a": 2, "b": ["y", "z"]}', []),
        ('{"a": 1, "b": 1}', '{"a": 1}', ["b: a number: the lab has none"]),
        ('{"a": 1}', '{"a": 1, "b": null}', ["b: null: the lab alone has it"]),
        (
            '{"a": "1"}',
            '{"a": 1}',
            ["a: digits: the lab has none", "a: a number: the lab alone has it"],
        ),
        (
            '{"p": [{"Type": "ACL", "Id": "x"}, {"Type": "VSID", "VSID": 4096}]}',
            '{"p": [{"Type": "ACL", "Id": "x"}]}',
            ["p[VSID].Type: text: the lab has none", "p[VSID].VSID: a number: the lab has none"],
        ),
        (
            '{"ManagementIP": "10.0.0.1"}',
            '{"ManagementIP": "10.0.0.1/24"}',
            [
                "ManagementIP: address: the lab has none",
                "ManagementIP: network: the lab alone has it",
            ],
        ),
        (
            '{"keys": ["{\\"HNSControlFlag\\":1}"]}',
            '{"keys": ["{\\"HNSControlFlag\\":1}", "{\\"Release\\":5}"]}',
            ["keys[].Release: a number: the lab alone has it"],
        ),
        ("KB5044281\nKB5044282", "KB1", []),
        (
            "C:\\k\\kube-proxy.exe --source-vip=10.0.0.3 --v=4",
            "C:\\k\\kube-proxy.exe --v=6",
            [
                "line '<path> --source-vip=<address> --v=<digits>': the lab has none",
                "line '<path> --v=<digits>': the lab alone has it",
            ],
        ),
        ('{"type": "calico"}\n{"a": 1}', '{"type": "x"}', ["a: a number: the lab has none"]),
        ('{"a": 1}\nx' + CUT, '{"a": 1, "b": 2}', ["line 'x': the lab has none"]),
    ],
)
def test_fields_types_and_classes_of_values_are_compared(
    recorded: str, lab: str, found: list[str]
) -> None:
    sides = (
        [{"node": "n", "program": "x.ps1", "output": text, "exit_code": "0"}]
        for text in (recorded, lab)
    )
    assert shapes.differences(*sides) == [f"x.ps1: {line}" for line in found]


def test_a_program_that_fails_differs_from_one_that_prints() -> None:
    works = {"node": "n", "program": "x.ps1", "output": "{}", "exit_code": "0"}
    broken = {"node": "n", "program": "x.ps1", "output": "", "error": "no exec"}
    other = works | {"exit_code": "1"}
    assert shapes.differences([broken], [works]) == [
        "x.ps1: no output: the lab has none",
        "x.ps1: : an empty object: the lab alone has it",
    ]
    assert shapes.differences([other], [works]) == [
        "x.ps1: another exit code than 0: the lab has none"
    ]
    assert shapes.differences([works], []) == ["x.ps1: the lab was not asked"]
    assert shapes.differences([works | {"program": "x.ps1, exec/two"}], [works]) == []


@pytest.mark.parametrize(
    ("mode", "program", "field", "form"),
    [
        ("vxlan", "hns.ps1", "AddressPrefix", "network"),
        ("bgp", "bgp.ps1", "next_hop", "address"),
        ("policy-only", "hns.ps1", "GatewayAddress", "address"),
    ],
)
def test_a_made_up_recording_is_held_to_what_the_labs_hosts_print(
    tmp_path: Path, mode: str, program: str, field: str, form: str
) -> None:
    """Of the lab's own answers, so that it confirms nothing, and none of it is committed."""
    printed = answers(mode)
    names = {one["program"] for one in printed}
    assert names >= {"hns.ps1", "bgp.ps1", "registry.ps1", "load_balancers.ps1", "updates"}
    assert names >= {"kube-proxy command line", "CNI files"}
    made_up = tmp_path / "made-up.json"
    made_up.write_text(json.dumps(a_calibration() | {"mode": mode, "programs": printed}))
    assert problems(read(made_up), []) == []
    made_up.write_text(made_up.read_text().replace(f'\\"{field}\\"', '\\"Renamed\\"'))
    found = problems(read(made_up), [])
    assert any(f".Renamed: {form}: the lab has none" in line for line in found), found
    assert any(f".{field}: {form}: the lab alone has it" in line for line in found)
    assert all(line.startswith(f"not listed: {program}: ") for line in found)
    listed = [line.removeprefix("not listed: ") for line in found]
    assert problems(read(made_up), listed) == []
