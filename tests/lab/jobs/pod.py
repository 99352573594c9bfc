# SPDX-License-Identifier: Apache-2.0
"""A process in the surroundings of a container of the Job's pod, without a container engine.

It has a mount namespace with a ServiceAccount's files and its own ``/tmp``, a root that it cannot
write to, the user of the image, the environment of the Job, and no HOME. The network is this
machine's, because a lab's API server listens there.
"""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from conformance.jobs.objects import USER
from conformance.kube.access import SERVICE_ACCOUNT

ROOT = Path(__file__).parents[3]
ENTER = r"""
set -e
mount -t tmpfs run /run
mkdir -p "$ACCOUNT"
cp "$FILES"/* "$ACCOUNT"/
mount --bind "$RESULTS" "$RESULTS"
mount -t tmpfs -o mode=1777 own /dev/shm
mount -o remount,bind,ro /
exec unshare --user --map-user=$OWN --map-group=$OWN env -i "$@"
"""


@dataclass
class Pod:
    """The surroundings that a kubelet gives a pod of a ServiceAccount."""

    server: str
    authority: str
    token: str
    folder: Path
    """The folder of the results, to which the container may write."""
    node: str = "linux-1"
    address: str = "10.0.0.11"
    environment: dict[str, str] = field(default_factory=dict)
    program: tuple[str, ...] = (sys.executable, "-m", "conformance.cli")
    """The image's entry point."""

    def command(self, words: Sequence[str]) -> list[str]:
        """Return the command that enters the container and then becomes the container's process."""
        files = self.folder / "account"
        files.mkdir(exist_ok=True)
        (files / "token").write_text(self.token)
        (files / "ca.crt").write_text(self.authority)
        (files / "namespace").write_text("calico-conformance")
        results = self.folder / "results"
        results.mkdir(exist_ok=True)
        server = urlsplit(self.server)
        own = {
            "PATH": os.environ["PATH"],
            "TMPDIR": str(results),
            "PYTHONPATH": str(ROOT / "lib"),
            "KUBERNETES_SERVICE_HOST": str(server.hostname),
            "KUBERNETES_SERVICE_PORT": str(server.port),
            "CALICO_CONFORMANCE_NODE": self.node,
            "CALICO_CONFORMANCE_POD_IP": self.address,
            "CALICO_CONFORMANCE_GRACE": "600",
            "PYTHONUNBUFFERED": "1",
            **self.environment,
        }
        setting = {
            "ACCOUNT": str(SERVICE_ACCOUNT).replace("/var/run", "/run"),
            "FILES": str(files),
            "RESULTS": str(results),
            "OWN": str(USER),
        }
        return [
            "env",
            *(f"{name}={value}" for name, value in setting.items()),
            "unshare", "--user", "--map-root-user", "--mount", "sh", "-c", ENTER, "sh",
            *(f"{name}={value}" for name, value in own.items() if value),
            *words,
        ]  # fmt: skip

    @property
    def results(self) -> Path:
        """Return the folder of the results."""
        return self.folder / "results"

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start the suite's program in the container."""
        return subprocess.Popen(
            self.command([*self.program, *words]),
            cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True,
        )  # fmt: skip


def pod_of(kubeconfig: Path, token: str, folder: Path) -> Pod:
    """Return a pod on the cluster of a kubeconfig."""
    cluster = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    return Pod(cluster["server"], authority, token, folder)
