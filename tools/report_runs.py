# SPDX-License-Identifier: Apache-2.0
"""Make the runs that ``tools/report_images.py`` takes pictures of, each on a lab of its own.

``python -m tools.report_runs FOLDER [RUN]...`` writes ``FOLDER/healthy``, ``violated``, ``dead``
and ``denied``, one after the other, or only those named.  ``violated`` has four faults of four
kinds, in ``dead`` a Windows node is switched off in mid-run, in ``denied`` a policy of another
owner denies ingress to every pod.  It takes about half an hour on two busy cores, and needs
kubectl.
"""

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

DENY = """
apiVersion: projectcalico.org/v3
kind: GlobalNetworkPolicy
metadata: {name: default-deny}
spec:
  order: 1000
  types: [Ingress]
  ingress: [{action: Deny}]
  namespaceSelector: kubernetes.io/metadata.name contains 'calico-demo'
"""
FAULTS = {
    "violated": (
        "policy-not-enforced node=windows-2022",
        "mtu-black-hole",
        "dns-silent node=linux-2",
        "snat-despite-dsr node=windows-2022",
    ),
    "dead": ("node-dead node=windows-2019 after=45",),
}
CLAIMS = {
    "violated": "DEMO-5 DEMO-6 DEMO-7 CONN-3 CONN-6 SVC-2",
    "dead": "CONN-1 CONN-3 DEMO-2 DEMO-3 DEMO-5 DEMO-7",
    "denied": "CONN-1 CONN-3 DEMO-2 DEMO-5 DEMO-7",
}
WORDS = {
    "violated": "full_sized and linux-to or full_name or over_tcp or cluster_ip or demo",
    "dead": "demo or pods_of_different_nodes or node_reaches",
    "denied": "demo or pods_of_different_nodes or node_reaches",
}
RUNS = ("healthy", "violated", "dead", "denied")


def conformance(folder: Path, *options: str) -> None:
    """Run the suite with this folder for its reports; any exit code is accepted, since the picture
    shows it."""
    command = ["-m", "conformance.cli", "run", "-n", "2", "-p", "no:cacheprovider", *options]
    subprocess.run([sys.executable, *command, f"--report-dir={folder}"], check=False)


def selected(name: str) -> list[str]:
    """Return the options that select a run's tests."""
    return ["--require=core,policy" if name == "violated" else "--require=core", "-k", WORDS[name],
            *(f"--claim={claim}" for claim in CLAIMS[name].split())]  # fmt: skip


def broken(name: str, folder: Path) -> None:
    """Run the suite on a lab with the faults, or the policy of another owner, that belong to this
    name."""
    with tempfile.TemporaryDirectory() as own:
        kubeconfig = Path(own) / "lab.yaml"
        hybridlab = [sys.executable, "-m", "hybridlab"]
        ready, written = os.pipe()
        up = [*hybridlab, "up", "--kubeconfig", str(kubeconfig), "--ready-fd", str(written)]
        lab = subprocess.Popen(up, stdin=subprocess.DEVNULL, pass_fds=[written])
        os.close(written)
        try:
            with os.fdopen(ready) as line:
                line.readline()
            faults = [*hybridlab, "faults", "--kubeconfig", str(kubeconfig), "inject"]
            for fault in FAULTS.get(name, ()):
                subprocess.run([*faults, *shlex.split(fault)], check=True)
            if name == "denied":
                apply = ["kubectl", "--kubeconfig", str(kubeconfig), "apply", "-f", "-"]
                subprocess.run(apply, input=DENY, text=True, check=True)
            conformance(folder, f"--kubeconfig={kubeconfig}", *selected(name))
        finally:
            lab.terminate()
            lab.wait()


def main() -> None:
    """Make the named runs, or all of them."""
    if len(sys.argv) < 2 or set(sys.argv[2:]) - set(RUNS):
        raise SystemExit(__doc__)
    folder = Path(sys.argv[1]).resolve()
    for name in sys.argv[2:] or RUNS:
        if name == "healthy":
            conformance(folder / name)
        else:
            broken(name, folder / name)


if __name__ == "__main__":
    main()
