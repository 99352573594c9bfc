# SPDX-License-Identifier: Apache-2.0
"""The CNI plugin's log file on each node of a lab: its lines, and rotation."""

from __future__ import annotations

from hybridlab.calico.cni_log import ROTATED_AT, CniLogs


def test_each_node_has_its_file_from_the_first_call_on() -> None:
    logs = CniLogs()
    told: list[str] = []
    logs.on_line = told.append
    assert logs.text("n1") is None
    logs.added("n1", "ns/fine")
    logs.added("n1", "ns/bad", "no address")
    assert told == ["n1", "n1"]
    assert logs.text("n2") is None
    first, second = (logs.text("n1") or "").splitlines()
    assert first[23:].startswith(" [INFO][4711] cni-plugin/k8s.go 636: Wrote updated endpoint")
    assert second[23:] == (
        " [ERROR][4711] cni-plugin/plugin.go 586: Final result of CNI ADD was an error. "
        "error=no address Pod=ns/bad"
    )


def test_a_full_file_is_begun_anew() -> None:
    logs = CniLogs()
    sizes = []
    for number in range(400):
        logs.added("n1", f"ns/pod-{number}")
        sizes.append(len(logs.text("n1") or ""))
    assert max(sizes) <= ROTATED_AT
    assert sizes[-1] < max(sizes)
    assert "pod-399" in (logs.text("n1") or "")
