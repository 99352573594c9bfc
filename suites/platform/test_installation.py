# SPDX-License-Identifier: Apache-2.0
"""Calico that was installed on Windows by hand or by manifest runs there, and has the files that it
needs to reach the API."""

from conformance.fixtures import Case, Expect, Readings, WindowsInstall, WorkerPods
from conformance.marks import needs, verifies

STARTED = "the CNI plugin of this node gave the pod its network"


@verifies("INST-1")
@needs(host_process=True)
def test_calico_runs_on_every_windows_node(
    windows_install: WindowsInstall, requires: Readings
) -> None:
    because = "the scripts install Calico as services, and the manifest installs it as a DaemonSet"
    do = "read Felix' log on the node, then run Start-Service CalicoNode, CalicoFelix"
    nodes = windows_install.windows
    requires.that(windows_install.state, "Running", on=nodes, because=because, do=do)


@verifies("DS-3")
@needs(host_process=True)
def test_the_cni_plugin_has_a_kubeconfig_that_is_valid(
    pods: WorkerPods, windows_install: WindowsInstall, requires: Readings, expect: Expect
) -> None:
    clients = pods.clients("windows")
    server = pods.servers("linux")
    because = "without a kubeconfig, or with an expired token, pods are refused as Unauthorized"
    do = "create the kubeconfig again as Calico's documentation describes"
    nodes = windows_install.windows
    requires.that(windows_install.kubeconfig, "valid", on=nodes, because=because, do=do)
    expect.matrix(Case(clients, server, tcp=8080, open=True, because=STARTED))
