# SPDX-License-Identifier: Apache-2.0
"""Reads nodes: HNS on Windows by PowerShell in a HostProcess pod, kernel networking on Linux.

A read returns facts or raises an exception. A broken exec, a failed command, and a garbled or empty
output are ProbeBroken, and never count as "there is none". An empty output is accepted only if
another command then shows that output from this pod arrives.

HNS' cmdlets write an error and go on, so that PowerShell ends with 0. Therefore scripts stop at
their first error. If HNS does not answer, its cmdlets write no error. They return an empty text or
null, which ConvertTo-Json prints.
"""

import re
import secrets
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Any, TypeVar

from conformance.errors import ProbeBroken, SuiteError
from conformance.kube.channels import ExecBroken
from conformance.kube.execute import ExecResult
from conformance.model.capture import Capture
from conformance.model.counted import counted
from conformance.model.endpoint import Workload
from conformance.model.host import (
    AclRule,
    BgpHost,
    HnsEndpoint,
    HnsNetwork,
    LinuxFacts,
    LoadBalancer,
)
from conformance.model.observation import Verdict
from conformance.probe import hns, linux_host, windows_host
from conformance.settings import Timings
from conformance.timing import SYSTEM_CLOCK, Clock, Deadline

T = TypeVar("T")
Run = Callable[[Workload, Sequence[str], float], ExecResult]
"""Runs a command in a pod within a number of seconds; raises ProbeBroken."""
Place = Callable[[str], Workload]
"""Returns the host pod of the named node; creates it if there is none."""

POWERSHELL = (
    r"C:\Windows\System32\WindowsPowerShell\v1.0\powershell.exe", "-NoLogo", "-NoProfile", "-NonInteractive",
    "-ExecutionPolicy", "Bypass", "-OutputFormat", "Text", "-Command",
)  # fmt: skip
"""The command with its path, since HostProcess containers of containerd 1.6 use the host's PATH
(hcsshim adds PowerShell's folder since v0.10.0). These containers run commands by ``cmd /c``, so no
script may contain ``"``, ``%`` or a line break."""
SINGLE_QUOTES = re.compile("['\u2018\u2019\u201a\u201b]")
"""The characters that PowerShell accepts as the end of a text in single quotes. PowerShell reads
two of them in a row as a single such character
(``CodeGeneration.EscapeSingleQuotedStringContent``)."""
NOT_IN_SCRIPTS = re.compile(r'["%\x00-\x1f]')
STOP = "$ErrorActionPreference = 'Stop'; "
"""The beginning of every script: an error ends the script, with exit status 1."""
PKTMON = (
    r"$pktmon = 'C:\Windows\System32\pktmon.exe'; $file = 'C:\Windows\Temp\calico-conformance-{name}'; "
    r"$late = 'C:\Windows\System32\WindowsPowerShell\v1.0\powershell.exe -NoProfile -Command Start-Sleep {bound}; "
    r"if (Test-Path ' + $file + '.etl) {{ ' + $pktmon + ' stop; Remove-Item ' + $file + '.* }}'; "
    r"$made = Invoke-CimMethod -ClassName Win32_Process -MethodName Create -Arguments @{{ CommandLine = $late }}; "
    r"if ($made.ReturnValue) {{ throw ('nothing would end pktmon: Create ended with ' + $made.ReturnValue) }}; "
    r"& $pktmon start --capture --pkt-size 160 --file-size {megabytes} --file-name ($file + '.etl') | Out-Null; "
    r"if ($LASTEXITCODE) {{ throw ('pktmon start ended with ' + $LASTEXITCODE) }}; "
    r"try {{ Start-Sleep -Milliseconds {milliseconds} }} finally {{ & $pktmon stop | Out-Null }}; "
    r"try {{ & $pktmon etl2txt ($file + '.etl') --out ($file + '.txt') | Out-Null; "
    r"Select-String -Path ($file + '.txt') -SimpleMatch -Pattern {addresses} -Context 1,0 | "
    r"Select-Object -First {lines} | Out-String -Width 300 }} finally {{ Remove-Item -Path ($file + '.*') }}"
)
"""The script of a capture by pktmon, which Windows has from build 17763 on. The script captures
into a file of the host, prints the lines about the addresses, and removes the file.

If another capture is under way, pktmon does not start a second one, and the other capture
continues. If the pod is removed during a capture, the script's ``finally`` does not run, and pktmon
goes on in the host. Therefore the script first has WMI start a process outside the pod's job. After
``PKTMON_LATE`` s, which is far above the time limit of evidence, that process ends the capture if
its file still exists.
"""
PKTMON_LATE = 60
PKTMON_MEGABYTES = 4
"""The size of pktmon's file, in MB; when it is full, the oldest packets are removed."""
PKTMON_LINES = 300
"""The number of packets in pktmon's text that are printed. Each packet is printed with the line
before it, which contains its place and the reason if it was dropped."""
WITNESS = "Write-Output witness"
"""A command that prints a line on every node, to show that output arrives."""
CNI_CONFIGURATIONS = (
    r"C:\etc\cni\net.d\*.conf*",
    r"C:\k\azurecni\netconf\*.conf*",
    r"C:\Program Files\Amazon\EKS\cni\config\*.conf*",
    r"C:\var\lib\rancher\rke2\agent\etc\cni\net.d\*.conf*",
    r"C:\k\cni\config\*.conf*",
)
"""Paths on Windows: the default of windowsNodes.cniConfigDir; AKS; EKS; RKE2; Calico installed by
hand."""
PAUSE = 0.25
"""The pause, in seconds, before a broken exec is repeated; it doubles after each attempt."""


class CommandFailed(ProbeBroken):
    """A command was carried out and ended with an error of its own."""


class Hosts:
    """Hosts of a cluster's nodes.  Thread-safe if its parts are."""

    def __init__(
        self,
        run: Run,
        windows: Place,
        linux: Place,
        timings: Timings,
        *,
        clock: Clock = SYSTEM_CLOCK,
        once: bool = False,
        pods: str = hns.PODS,
    ) -> None:
        """Set up the reads. ``pods``: the expression that matches the names of pods' HNS networks.
        ``once``: do not repeat failed commands, for callers that have little time and decide
        nothing."""
        self._run = run
        self._windows = windows
        self._linux = linux
        self._timings = timings
        self._clock = clock
        self._once = once
        self._pods = pods

    def on_windows(self, node: str) -> Workload:
        """Return the pod in a Windows node's host. Raise the errors of :meth:`hns_networks`."""
        return self._windows(node)

    def command(self, pod: Workload, argv: Sequence[str]) -> ExecResult:
        """Run a command in a Windows pod.  Raise ProbeBroken."""
        return self._run(pod, argv, self._timings.windows.exec_overhead)

    def hns_networks(self, node: str) -> list[HnsNetwork]:
        """Return HNS networks of a Windows node. Raise ProbeBroken, MissingCapability
        (HostProcess pods are refused).
        """
        return [
            hns.network(document, self._pods)
            for document in self._documents(node, "Get-HnsNetwork", hns.NETWORK_MEMBERS)
        ]

    def hns_endpoints(self, node: str, *, remote: bool = False) -> list[HnsEndpoint]:
        """Return HNS endpoints of a Windows node. With ``remote``, include endpoints that stand for
        addresses of other nodes. Raise the errors of :meth:`hns_networks`."""
        found = [
            hns.endpoint(document)
            for document in self._documents(node, "Get-HnsEndpoint", hns.ENDPOINT_MEMBERS)
        ]
        return [endpoint for endpoint in found if remote or not endpoint.is_remote]

    def load_balancers(self, node: str) -> list[LoadBalancer]:
        """Return kube-proxy's load balancers on a Windows node. Raise the errors of
        :meth:`hns_networks`."""
        return [
            balancer
            for document in self._documents(node, "Get-HnsPolicyList", hns.BALANCER_MEMBERS)
            for balancer in hns.load_balancers(document)
        ]

    def acl_list(self, node: str, workload: Workload) -> tuple[AclRule, ...]:
        """Return the access rules of a pod's endpoint, in HNS' order. Raise ProbeBroken if the pod
        has no endpoint on this node."""
        endpoints = self.hns_endpoints(node)
        for endpoint in endpoints:
            if endpoint.address == workload.address:
                return endpoint.acls
        there = ", ".join(endpoint.address for endpoint in endpoints) or "none"
        raise ProbeBroken(
            f"node {node} has no HNS endpoint for {workload.label}, {workload.address}; it has {there}"
        )

    def cni_configuration(self, node: str, places: Sequence[str] = ()) -> str:
        """Return the text of a Windows node's CNI configuration: the files at ``places``, then the
        files at the usual places of installations.

        Raise the errors of :meth:`hns_networks`.
        """
        paths = ", ".join(map(quoted, dict.fromkeys((*places, *CNI_CONFIGURATIONS))))
        script = f"foreach ($path in {paths}) {{ Get-Content -Raw -Path $path -ErrorAction SilentlyContinue }}"
        return self._text(node, STOP + script)

    def command_lines(self, node: str, program: str) -> list[str]:
        """Return the command lines of a program's processes on a Windows node; none if it does not
        run.

        ``program`` includes its ending, ``kube-proxy.exe``. Raise the errors of
        :meth:`hns_networks`.
        """
        found = f"Get-CimInstance Win32_Process -Filter 'Name=''{program}'''"
        return self._lines(node, f"{STOP}{found} | ForEach-Object {{ $_.CommandLine }}")

    def file(self, node: str, path: str) -> str:
        """Return the text of a file of a Windows node. Raise the errors of :meth:`hns_networks`;
        ProbeBroken also if there is no such file."""
        return self._text(node, f"{STOP}Get-Content -Raw -Path {quoted(path)}")

    def updates(self, node: str) -> list[str]:
        """Return KB numbers of the updates that a Windows node lists as installed, such as
        ``KB5044281``.

        Windows lists the updates of its component store: cumulative updates, servicing stacks,
        .NET. Raise the errors of :meth:`hns_networks`.
        """
        return self._lines(
            node,
            f"{STOP}Get-CimInstance Win32_QuickFixEngineering | ForEach-Object {{ $_.HotFixID }}",
        )

    def calico_program(self, node: str) -> tuple[str, str]:
        """Return path and version of the program that runs as Felix on a Windows node. Both are
        empty if no such program runs.

        Example: ``C:\\CalicoWindows\\calico-node.exe`` and ``v3.24.0``. Raise the errors of
        :meth:`hns_networks`.
        """
        return windows_host.calico_program(
            self._text(node, STOP + windows_host.VERSION), f"node {node}"
        )

    def service(self, node: str, name: str) -> str:
        """Return the state of a Windows service, such as ``Running``; an empty string if it is not
        installed. Raise the errors of :meth:`hns_networks`."""
        found = f"Get-Service -Name {name} -ErrorAction SilentlyContinue"
        lines = self._lines(node, f"{STOP}{found} | ForEach-Object {{ '' + $_.Status }}")
        return lines[0].strip() if lines else ""

    def differences(self, node: str) -> dict[str, str]:
        r"""Return the properties in which Windows nodes of a build may differ: HNS and VFP
        switches, .NET, culture, ...

        Registry values are named by key and name: ``hns\State HnsAclUpdateChange``. Raise the
        errors of :meth:`hns_networks`.
        """
        return windows_host.differences(
            self._text(node, STOP + windows_host.REGISTRY), f"node {node}"
        )

    def bgp(self, node: str) -> BgpHost:
        """Return the BGP configuration of a Windows node's RemoteAccess. Raise the errors of
        :meth:`hns_networks`."""
        return windows_host.bgp_host(self._text(node, windows_host.BGP), f"node {node}")

    def cni_tokens(self, node: str) -> list[datetime | None]:
        """Return when the tokens of Calico's CNI plugin on a Windows node end
        (:func:`conformance.probe.windows_host.token_ends`).

        There is an entry for each kubeconfig of the plugin.  Raise the errors of
        :meth:`hns_networks`.
        """
        return windows_host.token_ends(
            self._text(node, STOP + windows_host.CNI_TOKENS), f"node {node}"
        )

    def connect(self, node: str, targets: Sequence[str], seconds: float) -> dict[str, Verdict]:
        """Attempt TCP connections from a Windows node's host to ``ADDRESS:PORT`` targets, all at
        once and for some seconds. Return their results. Raise the errors of
        :meth:`hns_networks`."""
        script = STOP + windows_host.connecting(targets, seconds)

        def ask() -> dict[str, Verdict]:
            done = self._powershell(self._windows(node), script, seconds)
            text = _decoded(_succeeded(node, "connect.ps1", done).stdout)
            return windows_host.connections(text, targets, f"node {node}")

        return self._patiently(ask, self._timings.windows.exec_overhead + seconds)

    def remove_hns_networks(self, node: str, identities: Collection[str]) -> str:
        """Remove at least one HNS network of a node, which cuts the node's own exec streams.

        Return the exec's output, or the error that broke the exec after the request. Neither of
        them shows that the network is gone; a new read does. Raise ProbeBroken if the command
        itself reports a failure or was never requested. Raise MissingCapability.
        """
        chosen = " -or ".join(f"$_.ID -eq {quoted(identity)}" for identity in sorted(identities))
        script = f"{STOP}Get-HnsNetwork | Where-Object {{ {chosen} }} | Remove-HnsNetwork"
        try:
            done = self._powershell(self._windows(node), script)
        except ExecBroken as broken:
            if not (broken.asked or broken.retryable):
                raise
            return str(broken)
        return _succeeded(node, script, done).output

    def packets_on_windows(self, node: str, seconds: float, addresses: Collection[str]) -> str:
        """Return pktmon's own lines about packets with one of these addresses, captured for a
        number of seconds.

        Raise the errors of :meth:`hns_networks`. Raise ProbeBroken also if the host has no pktmon,
        or pktmon is in use.
        """
        script = STOP + PKTMON.format(
            name=secrets.token_hex(4),
            megabytes=PKTMON_MEGABYTES,
            milliseconds=round(1000 * seconds),
            bound=round(seconds) + PKTMON_LATE,
            lines=PKTMON_LINES,
            addresses=", ".join(map(quoted, sorted(addresses))),
        )
        done = self._powershell(self._windows(node), script, seconds)
        return _decoded(_succeeded(node, "pktmon", done).stdout).replace("\r\n", "\n").strip()

    def linux(self, node: str) -> LinuxFacts:
        """Return links, routes, forwarding entries and neighbours of a Linux node. Raise
        ProbeBroken.
        """
        overhead = self._timings.linux.exec_overhead

        def ask() -> LinuxFacts:
            done = self._run(self._linux(node), linux_host.HOST_FACTS.argv, overhead)
            return linux_host.parse(node, _succeeded(node, "host_facts.py", done).stdout)

        return self._patiently(ask, overhead)

    def packets_on_linux(
        self,
        node: str,
        seconds: float,
        vxlan_port: int,
        ends: Collection[str],
        peers: Collection[str],
    ) -> Capture:
        """Return the packets between these addresses (:func:`conformance.probe.capture.argv`) in a
        Linux node's network.

        Raise ProbeBroken, also if the pod in the node's network may not capture.
        """
        command = linux_host.capture_argv(seconds, vxlan_port, ends, peers)
        done = self._run(self._linux(node), command, seconds + self._timings.linux.exec_overhead)
        return linux_host.captured(node, _succeeded(node, "capture.py", done).stdout)

    def _documents(self, node: str, cmdlet: str, members: Sequence[str]) -> list[dict[str, Any]]:
        """Return the objects that an HNS cmdlet lists. If the cmdlet fails while another command
        succeeds, the message names HNS.
        """
        script = _listing(cmdlet, members)
        try:
            return hns.documents(
                self._bytes(node, script, empty_is_broken=False), f"node {node}: {script}"
            )
        except (CommandFailed, hns.NoAnswer) as broken:
            if not self._answers(node):
                raise
            text = (
                f"HNS of node {node} fails: {cmdlet} does not answer, but another command "
                "in the same HostProcess "
                f"pod does; check the services hns and vmcompute there ({broken})"
            )
            raise ProbeBroken(text, broken.observations, broken.transport) from broken

    def _answers(self, node: str) -> bool:
        """Return whether commands run in a Windows node's host and their output arrives."""
        try:
            return self._successful(self._windows(node), node, WITNESS).strip() == b"witness"
        except SuiteError:
            return False

    def _text(self, node: str, script: str) -> str:
        """Return the output of a script that always prints something."""
        return _decoded(self._bytes(node, script, empty_is_broken=True))

    def _lines(self, node: str, script: str) -> list[str]:
        """Return the lines that a script prints, without blank lines."""
        lines = _decoded(self._bytes(node, script, empty_is_broken=False)).splitlines()
        return [line.strip() for line in lines if line.strip()]

    def _bytes(self, node: str, script: str, *, empty_is_broken: bool) -> bytes:
        """Return the standard output of a script that succeeded."""

        def ask() -> bytes:
            pod = self._windows(node)
            output = self._successful(pod, node, script)
            if not output.strip() and (
                empty_is_broken or not self._successful(pod, node, WITNESS).strip()
            ):
                raise ProbeBroken(
                    f"node {node}: {script}: empty output, and it is not known whether the "
                    "output was lost",
                    transport="empty",
                )
            return output

        return self._patiently(ask, self._timings.windows.exec_overhead)

    def _successful(self, pod: Workload, node: str, script: str) -> bytes:
        return _succeeded(node, script, self._powershell(pod, script)).stdout

    def _powershell(self, pod: Workload, script: str, runs: float = 0.0) -> ExecResult:
        return self._run(pod, (*POWERSHELL, script), self._timings.windows.exec_overhead + runs)

    def _patiently(self, ask: Callable[[], T], overhead: float) -> T:
        """Call ``ask``, and repeat it after an error for three times the time limit of an exec, as
        probing does."""
        deadline = Deadline(3 * overhead, self._clock)
        pause = PAUSE
        tries = 0
        while True:
            tries += 1
            try:
                return ask()
            except ProbeBroken as broken:
                final = self._once or (isinstance(broken, ExecBroken) and not broken.retryable)
                if final or deadline.remaining <= pause:
                    times = f"{counted(tries, 'try', 'tries')} in {deadline.elapsed:.0f} s"
                    kind = CommandFailed if isinstance(broken, CommandFailed) else ProbeBroken
                    raise kind(
                        f"{broken} ({times})", broken.observations, broken.transport
                    ) from broken
            self._clock.sleep(pause)
            pause = min(2.0, 2 * pause)


def quoted(text: str) -> str:
    """Return a text from the cluster, quoted so that PowerShell reads it as plain text.

    Raise ProbeBroken for characters that ``cmd /c`` would interpret within the quotes around a
    script.
    """
    if NOT_IN_SCRIPTS.search(text):
        raise ProbeBroken(f"{text!r} is not sent to a Windows host: cmd.exe would interpret it")
    return "'" + SINGLE_QUOTES.sub(r"\g<0>\g<0>", text) + "'"


def _decoded(output: bytes) -> str:
    return output.decode("utf-8-sig", errors="replace")


def _listing(cmdlet: str, members: Sequence[str]) -> str:
    """Return the script that prints these members of all objects that a cmdlet returns. An empty
    text and null are printed unchanged."""
    picked = (
        f"ForEach-Object {{ if ($_) {{ $_ | Select-Object {','.join(members)} }} else {{ $_ }} }}"
    )
    return f"{STOP}{cmdlet} | {picked} | ConvertTo-Json -Depth 10 -Compress"


def _succeeded(node: str, script: str, done: ExecResult) -> ExecResult:
    """Return the result of a command. Raise CommandFailed if the command ended with an error."""
    if done.exit_code:
        words = " ".join(done.output.split())[:300] or "no output"
        raise CommandFailed(
            f"node {node}: {script}: exit status {done.exit_code}: {words}", transport=done.output
        )
    return done
