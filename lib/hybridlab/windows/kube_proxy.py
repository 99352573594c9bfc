"""kube-proxy's process on a Windows node: its command line, and what the script that starts it writes before.

The script is hostprocess/calico/kube-proxy/start.ps1 of kubernetes-sigs/sig-windows-tools.  It reads ``NODENAME``, but
its DaemonSet sets ``NODE_NAME``: ``--hostname-override`` is empty, as it is on a real node.
"""

from __future__ import annotations

from hybridlab.profiles.machines import Machine, told_to_use_dsr
from hybridlab.profiles.model import Profile

NAME = "kube-proxy.exe"
SANDBOX = "C:\\hpc"
"""``CONTAINER_SANDBOX_MOUNT_POINT`` from containerd 1.7 on."""
DSR_FLAG = "--enable-dsr=true"
SERVICES = {"AKS": "kubeproxy", "RKE2": ""}
"""Provider to the Windows service that kube-proxy is; RKE2's agent starts it as a child of its own."""
ELSEWHERE = "kube-proxy"
PROGRAMS = {
    "AKS": "c:\\k\\kube-proxy.exe",
    "EKS": '"C:\\Program Files\\kubernetes\\kube-proxy.exe"',
    "RKE2": "c:\\var\\lib\\rancher\\rke2\\bin\\kube-proxy.exe",
}
BY_HAND = "c:\\k\\kube-proxy.exe"


def service_name(profile: Profile) -> str:
    """The Windows service that kube-proxy is on a host; empty: it is none."""
    return SERVICES.get(profile.kubernetes.provider, ELSEWHERE) if profile.kube_proxy.windows == "service" else ""


def service_command(profile: Profile, machine: Machine, source_vip: str) -> str:
    """The command line of a kube-proxy that the host itself runs."""
    flags = [
        "--v=3", "--proxy-mode=kernelspace", f"--hostname-override={machine.name}", "--kubeconfig=c:\\k\\config",
        f"--cluster-cidr={profile.network.pod_cidr}", f"--source-vip={source_vip}",
    ]  # fmt: skip
    gates = "WinOverlay=true"
    if told_to_use_dsr(profile, machine):
        flags.append(DSR_FLAG)
        gates += ",WinDSR=true"
    program = PROGRAMS.get(profile.kubernetes.provider, BY_HAND)
    return " ".join([program, *flags, f"--feature-gates={gates}"])


def script_command(profile: Profile, machine: Machine, source_vip: str) -> str:
    """The command line that start.ps1 puts together on an overlay network."""
    gates = ["WinOverlay=true"]
    flags = ["--hostname-override=", "--v=2", "--proxy-mode=kernelspace", f"--kubeconfig={SANDBOX}{KUBECONFIG}"]
    if told_to_use_dsr(profile, machine):
        flags.append(DSR_FLAG)
        gates.insert(0, "WinDSR=true")
    flags += [f"--source-vip={source_vip}", f"--feature-gates={','.join(gates)}"]
    return " ".join([f"{SANDBOX}/kube-proxy/kube-proxy.exe", *flags])


KUBECONFIG = "/var/lib/kube-proxy/kubeconfig.conf"

SCRIPT_WAITS = ("Running kub-proxy service.", "Waiting for HNS network Calico to be created...")
"""What start.ps1 writes before the network is there; the word is the script's."""


def script_goes_on(profile: Profile, machine: Machine, command: str) -> list[str]:
    """What start.ps1 writes once the network is there, up to the start of kube-proxy."""
    dsr = told_to_use_dsr(profile, machine)
    gates = " ".join((["WinDSR=true"] if dsr else []) + ["WinOverlay=true"])
    return [
        "HNS network Calico found.",
        f"kubeproxy version Kubernetes {profile.kubernetes.version}",
        "Write files so the kubeconfig points to correct locations",
        "Requires 2019 with KB4580390 (Oct 2020)" if dsr else "DSR feature is not supported.",
        "Detected VXLAN network, waiting for Calico host endpoint to be created...",
        "Host endpoint found.",
        f"Enabling feature gates: {gates}.",
        f"Start to run {command}",
    ]
