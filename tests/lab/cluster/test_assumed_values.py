# SPDX-License-Identifier: Apache-2.0
"""The lab's code reads every value of the lab's assumptions.yaml: a lab with other values
behaves accordingly, as a calibration measures."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

import hybridlab
from hybridlab.assumed import assumptions
from tests.lab.lab_process import RunningLab, running_lab
from tests.lab.measuring import measured
from tests.lab.rbac.conftest import environment

pytestmark = pytest.mark.xdist_group("calibrate")

OTHER: dict[str, Any] = {
    "refused-words": "REFUSED WSAECONNREFUSED/10061",
    "reset-words": "RESET WSAECONNRESET/10054",
    "refused-datagram-words": "REFUSED ConnectionReset/10054",
    "refused-late": 1.5,
    "syn-again": 3,
    "syn-again-linux": 3,
    "denied": "REFUSED WSAECONNREFUSED/10061",
    "overhead": 64,
    "without-host": "200",
    "long-head": "200",
    "head-without-end": "200",
    "source-of-pods": "client's node",
}
SHOWN_BY = {
    "refused-words": ("tcp-closed/linux", "windows"),
    "reset-words": ("reset/linux", "windows"),
    "refused-datagram-words": ("udp-closed/linux", "windows"),
    "refused-late": ("tcp-closed-seconds/linux", "windows"),
    "syn-again": ("syn-again", "windows"),
    "syn-again-linux": ("syn-again", "linux"),
    "denied": ("tcp-denied/windows", "windows"),
    "overhead": ("mtu/linux", "windows"),
    "without-host": ("http-no-host", "windows"),
    "long-head": ("http-too-long", "windows"),
    "head-without-end": ("http-cut-off", "windows"),
    "source-of-pods": ("source-pod/linux-other-node", "windows"),
}
"""What a calibration measures of each, and on which system."""
SOURCE = {"source-of-pods": OTHER.pop("source-of-pods")}
"""On a lab of its own: packets with another source are no SYNs of the client."""
UNDERLAY = 1500
"""Bytes of the largest packet between nodes of the lab."""


def overlaid(folder: Path, changed: dict[str, Any]) -> Path:
    """Return a folder with package hybridlab as it is, but for these values."""
    source = Path(hybridlab.__file__).parent
    package = folder / "hybridlab"
    package.mkdir(parents=True)
    for entry in source.iterdir():
        if entry.name in ("assumed", "labd"):  # labd's process starts from where its file is
            shutil.copytree(entry, package / entry.name)
        else:
            (package / entry.name).symlink_to(entry)
    plain = {n: {**one, "value": changed.get(n, one["value"])} for n, one in assumptions().items()}
    (package / "assumed" / "assumptions.yaml").write_text(yaml.safe_dump(plain), "utf-8")
    return folder


@contextmanager
def lab(folder: Path, changed: dict[str, Any]) -> Iterator[RunningLab]:
    """A small lab with other values, and a second Linux node for a Linux client of another node."""
    paths = f"{overlaid(folder / 'lib', changed)}:{environment()['PYTHONPATH']}"
    small = yaml.safe_load(
        (Path(hybridlab.__file__).parent / "profiles" / "small.yaml").read_text()
    )
    small["nodes"].append({"name": "linux-2", "os": "linux"})
    profile = folder / "profile.yaml"
    profile.write_text(yaml.safe_dump(small))
    paths_first = {**environment(), "PYTHONPATH": paths}
    with running_lab(folder, "--profile", str(profile), environment=paths_first) as one:
        yield one


@pytest.mark.parametrize(
    ("changed", "steps"),
    [(OTHER, ("pods", "errors", "syn-again", "mtu", "http")), (SOURCE, ("pods", "sources"))],
    ids=["results, packets and http.sys", "sources"],
)
def test_a_lab_with_other_values_behaves_by_them(
    tmp_path: Path, changed: dict[str, Any], steps: tuple[str, ...]
) -> None:
    with lab(tmp_path, changed) as one:
        found = measured(one.kubeconfig, tmp_path / "reports", *steps)
    assert found["not_measured"] == []
    values = {(one["id"], one["system"]): one["values"] for one in found["measurements"]}
    shown = {name: values[SHOWN_BY[name]] for name in changed}
    assert {name: as_assumed(changed[name], *shown[name]) for name in changed} == changed


def test_no_assumption_is_left_out() -> None:
    assert OTHER.keys() | SOURCE.keys() == SHOWN_BY.keys() == assumptions().keys()
    assert all({**OTHER, **SOURCE}[name] != one["value"] for name, one in assumptions().items())


def as_assumed(given: Any, first: Any, *more: Any) -> Any:
    """Return the value of an assumption that measurements are near; the first if none is."""
    if given == OTHER["overhead"]:
        return UNDERLAY - first
    if isinstance(given, str):
        return first
    return given if all(abs(one - given) <= 0.25 * given for one in (first, *more)) else first
