# SPDX-License-Identifier: Apache-2.0
"""The reading of logs at the end of a run finds nothing on a healthy lab, and otherwise finds a
Felix that does not start, and pods for which the CNI plugin has no address."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from conformance.facts.last_look import last_look
from conformance.kube.access import from_kubeconfig
from conformance.kube.client import Kube
from conformance.probe import cni_log
from tests.lab.lab_process import RunningLab, running_lab

NODES = {
    "linux-1": "busybox:1.36",
    "windows-2019": "mcr.microsoft.com/windows/servercore:ltsc2019",
    "windows-2022": "mcr.microsoft.com/windows/servercore:ltsc2022",
}
"""Nodes with an image for each."""
SINCE = 600.0
WITHIN = 60.0
"""s.  For a container to be started again; it takes about ten."""
POD = """
apiVersion: v1
kind: Pod
metadata: {{name: {name}-{node}, namespace: default, annotations: {annotations}}}
spec:
  nodeName: {node}
  containers: [{{name: a, image: "{image}", command: [ping, 127.0.0.1]}}]
"""
NOT_OF_A_POOL = "{cni.projectcalico.org/ipAddrs: '[\"10.77.0.1\"]'}"


def looked(lab: RunningLab, ended: Callable[[list[str]], bool]) -> list[str]:
    """The notes, once they are so, or as they are in the end."""
    kube = Kube(from_kubeconfig(lab.kubeconfig))
    end = time.monotonic() + WITHIN
    try:
        while True:
            notes = last_look(kube, NODES, SINCE, partial(cni_log.read, kube))
            if ended(notes) or time.monotonic() > end:
                return notes
            time.sleep(0.5)
    finally:
        kube.close()


def pods(lab: RunningLab, name: str, annotations: str = "{}") -> None:
    for node, image in NODES.items():
        pod = POD.format(name=name, node=node, image=image, annotations=annotations)
        lab.kubectl("apply", "-f", "-", stdin=pod)


def test_a_felix_that_does_not_start_is_noted_with_its_errors(tmp_path: Path) -> None:
    with running_lab(tmp_path) as lab:
        pods(lab, "well")
        assert looked(lab, lambda notes: notes == []) == []
        where = ("--kubeconfig", str(lab.kubeconfig))
        done = lab.hybridlab("faults", *where, "inject", "felix-crash-loops", "node=windows-2019")
        assert done.returncode == 0, done.stderr
        notes = looked(lab, bool)
    assert (
        "error since the run began in the log of felix in calico-system/calico-node-windows-"
        in notes[0]
    )
    assert " on windows-2019: " in notes[0]
    assert "Felix does not start; kubectl logs -n calico-system " in notes[0]


def test_pods_without_an_address_are_noted_from_the_cni_plugins_log_of_their_nodes(
    tmp_path: Path,
) -> None:
    with running_lab(tmp_path) as lab:
        pods(lab, "well")
        pods(lab, "bad", NOT_OF_A_POOL)
        notes = looked(
            lab, lambda notes: len([note for note in notes if "Final result" in note]) == len(NODES)
        )
        kube = Kube(from_kubeconfig(lab.kubeconfig), read_only=True)
        refused = last_look(kube, NODES, SINCE, None)
        kube.close()
    assert len(notes) == len(NODES)
    for note, node in zip(
        sorted(notes, key=lambda each: each.split(" on ")[1]), NODES, strict=True
    ):
        assert f" since the run began in the CNI plugin's log on {node}: " in note
        assert (
            "[ERROR][4711] cni-plugin/plugin.go 586: Final result of CNI ADD was an error." in note
        )
    assert refused == [
        "last look at logs: the CNI plugin's log, a file on each node, was not read: this run "
        "executes no commands in pods"
    ]
