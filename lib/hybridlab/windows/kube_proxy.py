# SPDX-License-Identifier: Apache-2.0
"""kube-proxy's process on a Windows node: its command line, and the output of the script that
starts it.

The script is hostprocess/calico/kube-proxy/start.ps1 of kubernetes-sigs/sig-windows-tools. It
reads ``NODENAME``, but its DaemonSet sets ``NODE_NAME``: ``--hostname-override`` is empty, as it
is on a real node.
"""

from dataclasses import dataclass

from hybridlab.profiles.machines import Machine, enables_dsr
from hybridlab.profiles.model import Profile

NAME = "kube-proxy.exe"
SANDBOX = "C:\\hpc"
"""The value of ``CONTAINER_SANDBOX_MOUNT_POINT`` from containerd 1.7 on."""
DSR_FLAG = "--enable-dsr=true"
CONFIGURATION = "C:\\k\\kube-proxy.conf"
"""The path of the configuration file, for a kube-proxy that has such a file."""


@dataclass(frozen=True, kw_only=True)
class NetworkFlags:
    """kube-proxy's settings for the network of pods."""

    flags: tuple[str, ...] = ()
    gates: tuple[str, ...] = ()
    """The feature gates."""
    script: tuple[str, ...] = ()
    """The output of start.ps1 about the network."""


def service_command(profile: Profile, machine: Machine, program: str, network: NetworkFlags) -> str:
    """Return the command line of a kube-proxy that the host itself runs."""
    if profile.kube_proxy.windows == "configuration":
        return f"{program} --v=3 --hostname-override={machine.name} --config={CONFIGURATION} {DSR_FLAG}"
    flags = [
        "--v=3",
        "--proxy-mode=kernelspace",
        f"--hostname-override={machine.name}",
        "--kubeconfig=c:\\k\\config",
        f"--cluster-cidr={profile.network.pod_cidr}",
        *network.flags,
    ]
    gates = network.gates
    if enables_dsr(profile, machine):
        flags.append(DSR_FLAG)
        gates = (*gates, "WinDSR=true")
    return " ".join([program, *flags, *_gates(gates)])


def files(profile: Profile, machine: Machine) -> dict[str, str]:
    """Return the files that kube-proxy reads on the host, by path: a KubeProxyConfiguration, which
    no flag overrides."""
    if profile.kube_proxy.windows != "configuration":
        return {}
    dsr = str(enables_dsr(profile, machine)).lower()
    text = (
        "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: kernelspace\n"
        f"featureGates:\n  WinDSR: {dsr}\nwinkernel:\n  enableDSR: {dsr}\n  networkName: Calico\n"
    )
    return {CONFIGURATION: text}


def script_command(profile: Profile, machine: Machine, network: NetworkFlags) -> str:
    """Return the command line that start.ps1 builds."""
    flags = [
        "--hostname-override=",
        "--v=2",
        "--proxy-mode=kernelspace",
        f"--kubeconfig={SANDBOX}{KUBECONFIG}",
    ]
    if enables_dsr(profile, machine):
        flags.append(DSR_FLAG)
    flags += [*network.flags, *_gates(_script_gates(profile, machine, network))]
    return " ".join([f"{SANDBOX}/kube-proxy/kube-proxy.exe", *flags])


def _script_gates(profile: Profile, machine: Machine, network: NetworkFlags) -> tuple[str, ...]:
    return ("WinDSR=true", *network.gates) if enables_dsr(profile, machine) else network.gates


def _gates(gates: tuple[str, ...]) -> list[str]:
    return [f"--feature-gates={','.join(gates)}"] if gates else []


KUBECONFIG = "/var/lib/kube-proxy/kubeconfig.conf"

SCRIPT_WAITS = ("Running kub-proxy service.", "Waiting for HNS network Calico to be created...")
"""The output of start.ps1 before the network exists; the misspelt word is the script's."""


def script_goes_on(profile: Profile, machine: Machine, network: NetworkFlags) -> list[str]:
    """Return the output of start.ps1 after the network exists, up to the start of kube-proxy."""
    gates = " ".join(_script_gates(profile, machine, network))
    return [
        "HNS network Calico found.",
        f"kubeproxy version Kubernetes {profile.kubernetes.version}",
        "Write files so the kubeconfig points to correct locations",
        "Requires 2019 with KB4580390 (Oct 2020)"
        if enables_dsr(profile, machine)
        else "DSR feature is not supported.",
        *network.script,
        *([f"Enabling feature gates: {gates}."] if gates else []),
        f"Start to run {script_command(profile, machine, network)}",
    ]
