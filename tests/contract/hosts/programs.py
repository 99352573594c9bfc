# SPDX-License-Identifier: Apache-2.0
"""Every program that the suite runs on Windows hosts, in the form in which the judge sends it,
including programs that are texts in Python modules."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from conformance.disrupt import felix_process, felix_service
from conformance.errors import SuiteError
from conformance.kube.execute import ExecResult
from conformance.probe import cni_log, windows_host
from conformance.probe.host import POWERSHELL, STOP, Hosts

ASKED: dict[str, Callable[[Hosts], object]] = {
    "hns networks": lambda hosts: hosts.hns_networks("w"),
    "hns endpoints": lambda hosts: hosts.hns_endpoints("w"),
    "hns load balancers": lambda hosts: hosts.load_balancers("w"),
    "cni configuration": lambda hosts: hosts.cni_configuration("w"),
    "command lines": lambda hosts: hosts.command_lines("w", "kube-proxy.exe"),
    "file": lambda hosts: hosts.file("w", r"C:\k\x"),
    "updates": lambda hosts: hosts.updates("w"),
    "calico version": lambda hosts: hosts.calico_program("w"),
    "registry": lambda hosts: hosts.differences("w"),
    "connect": lambda hosts: hosts.connect("w", ["10.0.0.1:80", "10.0.0.2:81"], 0.8),
    "bgp": lambda hosts: hosts.bgp("w"),
    "cni tokens": lambda hosts: hosts.cni_tokens("w"),
    "remove hns networks": lambda hosts: hosts.remove_hns_networks("w", ["n-1"]),
    "packets": lambda hosts: hosts.packets_on_windows("w", 0.1, ["10.0.0.1"]),
}

CALIBRATED = ("hns", "load", "load balancers")
"""Programs of manifests/nodes that only `calico-conformance calibrate` runs."""


def programs() -> dict[str, str]:
    """Map names to scripts."""
    found = {name: _sent(ask) for name, ask in ASKED.items()}
    found["cni log"] = cni_log.command("windows", cni_log.PATH)[-1]
    found |= {
        name: STOP + windows_host.one_line(f"{name.replace(' ', '_')}.ps1") for name in CALIBRATED
    }
    for module in (felix_process, felix_service):
        found |= {
            f"{Path(str(module.__file__)).stem} {name}": text
            for name, text in vars(module).items()
            if name in ("END", "LIST", "RESTART") and isinstance(text, str)
        }
    return found


def _sent(ask: Callable[[Hosts], object]) -> str:
    """Return the first script that a question to the hosts sends."""
    scripts: list[str] = []

    def run(pod: Any, argv: Sequence[str], within: float) -> ExecResult:
        assert tuple(argv[:-1]) == POWERSHELL
        scripts.append(argv[-1])
        raise SuiteError("asked")

    timings: Any = SimpleNamespace(windows=SimpleNamespace(exec_overhead=1.0))
    place: Any = SimpleNamespace
    with contextlib.suppress(SuiteError):
        ask(Hosts(run, lambda node: place(), lambda node: place(), timings, once=True))
    return scripts[0]
