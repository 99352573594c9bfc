# SPDX-License-Identifier: Apache-2.0
"""The setting of direct server return (``--enable-dsr``) of kube-proxy on each Windows node.

Only sources of the process itself count: its command line (:mod:`conformance.facts.node_readings`),
the log in which kube-proxy or its start script repeats that line, and the arguments of its
container. Two other sources do not count: the DaemonSet of sig-windows-tools names only a script,
and Windows never reads the ConfigMap of Linux' kube-proxy, in which kubeadm writes ``enableDSR:
false``. If log and arguments do not name the flag, the setting is unknown, since the start script
or a configuration file may add it. With ``--config`` the flag has no effect, wherever it is set:
kube-proxy replaces the values of its flags by the file's values, except for logging and
``--hostname-override`` (kubernetes cmd/kube-proxy/app/options.go, Complete; enable-dsr is bound to
the configuration in init_windows.go).
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
"""Matches the setting in a KubeProxyConfiguration, below ``winkernel``."""
SOURCE_VIP = re.compile(r"(?<![\w-])--?source-vip[= ][\"']?(?P<value>[\d.]+)")
SOURCE_VIP_SET = re.compile(r"^\s*[\"']?sourceVip[\"']?:\s*[\"']?(?P<value>[\d.]+)", re.MULTILINE)
"""Matches the source VIP in a KubeProxyConfiguration. On an overlay kube-proxy does not start
without it (winkernel/proxier.go)."""
LOGGED = re.compile(r"kube-proxy\.exe|\bFLAG: ")
"""Matches log lines that repeat kube-proxy's flags."""
BEGINS = re.compile(r"kube-proxy\.exe|\bFLAG: --config=")
"""Matches log lines that show whether kube-proxy reads its settings from a file. kube-proxy logs
its flags sorted by name, so the line of ``--config`` precedes the line of ``--enable-dsr``."""
FALSE = frozenset({"0", "f", "F", "false", "False", "FALSE"})
"""Go's spellings of false."""
NAMESPACE = "kube-system"
PREFIX = "kube-proxy"
HEAD = 64 * 1024
"""The number of bytes that are read from the beginning of a log, where kube-proxy logs its
start."""


def enabled_in(text: str) -> bool | None:
    """Return the value of ``--enable-dsr`` in a command line; the last occurrence counts. Return
    None if the flag is not set, or has no effect because of ``--config``."""
    found = list(FLAG.finditer(text))
    return found[-1]["value"] not in FALSE if found and configuration(text) is None else None


def configuration(line: str) -> str | None:
    """Return the path of the configuration file that a kube-proxy command line names; None if the
    line names no file, so that its flags count."""
    found = CONFIGURATION.search(line)
    return found["path"].strip() if found else None


def set_in(text: str) -> bool | None:
    """Return the DSR setting in a KubeProxyConfiguration; None if it is not set."""
    found = SET.search(text)
    return found["value"] not in FALSE if found else None


def source_vip(line: str, text: str = "") -> str:
    """Return the source address that kube-proxy gives pods that connect through a Service of an
    overlay; an empty string if none is set. The address is read from the command line, or from the
    ``text`` of the file that the command line names."""
    found = [
        *(SOURCE_VIP if configuration(line) is None else SOURCE_VIP_SET).finditer(text or line)
    ]
    return found[-1]["value"] if found else ""


def logged(log: str) -> bool | None:
    """Return the value of ``--enable-dsr`` at the newest start in a log; None if it is not set."""
    said = None
    configured = False
    for line in filter(LOGGED.search, log.splitlines()):
        if BEGINS.search(line):
            configured = configuration(line) is not None
        said = None if configured else said if (value := enabled_in(line)) is None else value
    return said


def with_dsr(kube: Kube, nodes: Sequence[NodeFacts]) -> list[NodeFacts]:
    """Return the nodes; each Windows node gets the DSR setting of its kube-proxy.

    The setting comes from the pod's log, else from the pod's arguments. If neither source has the
    setting, it is unknown, with the reason.
    """
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
        return Fact(None, f"not known: no pod {PREFIX}* of namespace {NAMESPACE} is on the node")
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
        value = enabled_in(command_line(container))
        if value is not None:
            return Fact(value, f"--enable-dsr in the arguments of pod {name}")
    silent = (
        "its arguments do not name --enable-dsr"
        if unread
        else "neither its log nor its arguments name --enable-dsr"
    )
    return Fact(None, f"not known: pod {name}: {'; '.join(filter(None, (silent, unread)))}")
