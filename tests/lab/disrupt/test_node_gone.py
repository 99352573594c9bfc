# SPDX-License-Identifier: Apache-2.0
"""A node is deleted while a run uses it: its tests are NOT_RUN with that reason, at once."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from conformance.errors import MissingCapability
from conformance.facts.detect import detect
from conformance.kube.access import from_kubeconfig
from conformance.kube.changes import Changes
from conformance.kube.client import Kube
from conformance.kube.ownership import Ownership
from conformance.model.attempt import Attempt, Kind
from conformance.pods.deploy import Pods, Wish
from conformance.probe.prober import Prober
from conformance.settings import Settings, load_timings
from tests.lab.lab_process import running_lab

WORDS = r"node windows was removed during the run: the cluster no longer has this node; .*--nodes"


def test_what_was_on_it_is_what_the_cluster_lacks(tmp_path: Path) -> None:
    with running_lab(tmp_path, "--profile", "small") as lab:
        kube = Kube(from_kubeconfig(lab.kubeconfig))
        settings = Settings(timings=load_timings(lab=True))
        facts = detect(kube, evidence="lab")
        pods = Pods(kube, Changes(kube, Ownership("gone")), facts, settings)
        node = next(item for item in facts.nodes if item.name == "windows")
        wish = Wish(role="windows-client", node=node)
        prober = Prober(kube, tmp_path / "run", settings)
        try:
            client = pods.deploy([wish])[wish.called]
            goal = client.tcp(8080)
            attempt = Attempt(source=client, target=goal, kind=Kind.TCP, give_up_after=1.0)
            prober.observe([attempt])
            lab.kubectl("delete", "node", "windows", "--wait=false")
            lab.kubectl("wait", "--for=delete", "node/windows", "--timeout=20s", check=False)
            begun = time.monotonic()
            with pytest.raises(MissingCapability, match=WORDS):
                pods.deploy([wish])
            assert time.monotonic() - begun < 5.0, "it is not waited for"
            pod = (f"pod/{client.pod}", "-n", client.namespace)
            lab.kubectl("wait", "--for=delete", *pod, "--timeout=30s", check=False)
            with pytest.raises(MissingCapability, match=WORDS):
                prober.unchanged([client])
        finally:
            prober.close()
            kube.close()
