# SPDX-License-Identifier: Apache-2.0
"""Whether kube-proxy on a Windows node was told to use direct server return (``--enable-dsr``),
node by node.

Only what the process itself was started with says so: its command line
(:mod:`conformance.facts.node_readings`), the log in which kube-proxy or the script that starts it
repeats that line, and the arguments of its container.  The DaemonSet of sig-windows-tools names a
script alone, and Windows never reads the ConfigMap of Linux' kube-proxy, in which kubeadm writes
``enableDSR: false``.  Where a log or arguments do not name the flag it is not known: what starts
kube-proxy may add it, or a configuration file.  Beside ``--config`` the flag counts nothing,
wherever it is named: kube-proxy puts the file in the place of what its flags said, logging and
``--hostname-override`` apart (kubernetes cmd/kube-proxy/app/options.go, Complete; enable-dsr is
bound to the configuration in init_windows.go).
"""

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from conformance.errors import SuiteError, first_line
from conformance.facts.workloads import command_line
from conformance.kube.client import Kube, Obj
from conformance.model.facts import Fact, NodeFacts

FLAG = re.compile(r"(?<![\w-])--?enable-dsr(?:=[\"']?(?P<value>\w+)[\"']?)?(?![\w-])")
CONFIGURATION = re.compile(r"(?<![\w-])--?config[= ][\"']?(?P<path>[^\"']+?)[\"']?(?=\s+-|\s*$)")
SET = re.compile(r"^\s*[\"']?enableDSR[\"']?:\s*[\"']?(?P<value>\w+)", re.MULTILINE)
"""In a KubeProxyConfiguration, below ``winkernel``."""
SOURCE_VIP = re.compile(r"(?<![\w-])--?source-vip[= ][\"']?(?P<value>[\d.]+)")
SOURCE_VIP_SET = re.compile(r"^\s*[\"']?sourceVip[\"']?:\s*[\"']?(?P<value>[\d.]+)", re.MULTILINE)
"""As :data:`SET`.  On an overlay kube-proxy does not start without it (winkernel/proxier.go)."""
LOGGED = re.compile(r"kube-proxy\.exe|\bFLAG: ")
"""In lines of a log that repeat what kube-proxy was started with."""
BEGINS = re.compile(r"kube-proxy\.exe|\bFLAG: --config=")
"""In those that say whether a file has the settings; kube-proxy writes its flags by name, this one
before the other."""
FALSE = frozenset({"0", "f", "F", "false", "False", "FALSE"})
"""Go's spellings."""
NAMESPACE = "kube-system"
PREFIX = "kube-proxy"
HEAD = 64 * 1024
"""Bytes of a log's beginning, where the start is."""


def told(text: str) -> bool | None:
    """What a command line says, whose last word counts; None: nothing, as always where it names a
    ``--config``."""
    found = list(FLAG.finditer(text))
    return found[-1]["value"] not in FALSE if found and configuration(text) is None else None


def configuration(line: str) -> str | None:
    """Path of the file that a command line of kube-proxy has its settings from; None: from its
    flags."""
    found = CONFIGURATION.search(line)
    return found["path"].strip() if found else None


def set_in(text: str) -> bool | None:
    """What a KubeProxyConfiguration says; None: nothing."""
    found = SET.search(text)
    return found["value"] not in FALSE if found else None


def source_vip(line: str, text: str = "") -> str:
    """The address that kube-proxy gives pods that come by a Service of an overlay; empty: it was
    given none.

    By its command line, or by the ``text`` of the file that this names.
    """
    found = [
        *(SOURCE_VIP if configuration(line) is None else SOURCE_VIP_SET).finditer(text or line)
    ]
    return found[-1]["value"] if found else ""


def logged(log: str) -> bool | None:
    """What the newest start in a log says; None: nothing."""
    said = None
    configured = False
    for line in filter(LOGGED.search, log.splitlines()):
        if BEGINS.search(line):
            configured = configuration(line) is not None
        said = None if configured else said if (value := told(line)) is None else value
    return said


def with_dsr(kube: Kube, nodes: Sequence[NodeFacts]) -> list[NodeFacts]:
    """The nodes, the Windows ones with what logs and arguments of kube-proxy's pods on them say."""
    windows = [node.name for node in nodes if node.os == "windows"]
    try:
        pods = kube.objects("v1", "Pod", NAMESPACE) if windows else []
    except SuiteError as error:
        unread: Fact[bool] = Fact(
            None, f"not known: pods in {NAMESPACE} could not be listed: {first_line(error)}"
        )
        return [replace(node, dsr=unread) if node.os == "windows" else node for node in nodes]
    there = {
        pod["spec"]["nodeName"]: pod
        for pod in pods
        if pod["metadata"]["name"].startswith(PREFIX) and pod["spec"].get("nodeName") in windows
    }
    with ThreadPoolExecutor(max_workers=8) as pool:
        facts = dict(
            zip(windows, pool.map(lambda name: _of(kube, there.get(name)), windows), strict=True)
        )
    return [replace(node, dsr=facts[node.name]) if node.os == "windows" else node for node in nodes]


def _of(kube: Kube, pod: Obj | None) -> Fact[bool]:
    if pod is None:
        return Fact(None, f"not known: no pod {PREFIX}* of {NAMESPACE} is on the node")
    name = f"{NAMESPACE}/{pod['metadata']['name']}"
    unread = ""
    for container in pod["spec"]["containers"]:
        try:
            value = logged(
                kube.logs(NAMESPACE, pod["metadata"]["name"], container["name"], head=HEAD)
            )
        except SuiteError as error:
            value = None
            unread = f"its log could not be read: {first_line(error)}"
        if value is not None:
            return Fact(value, f"--enable-dsr in the log of pod {name}")
    for container in pod["spec"]["containers"]:
        value = told(command_line(container))
        if value is not None:
            return Fact(value, f"--enable-dsr in the arguments of pod {name}")
    silent = (
        "its arguments do not name --enable-dsr"
        if unread
        else "log and arguments do not name --enable-dsr"
    )
    return Fact(None, f"not known: pod {name}: {'; '.join(filter(None, (silent, unread)))}")
