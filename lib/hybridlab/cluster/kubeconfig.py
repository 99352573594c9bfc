# SPDX-License-Identifier: Apache-2.0
"""The lab's kubeconfig: written with mode 0600, marked as the lab's, and recognised as stale when
the lab has ended.

A file that is not a lab's, or that belongs to a running lab, is never overwritten.
"""

import base64
import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hybridlab.cluster import rundir
from hybridlab.cluster.exits import USAGE, Stop

EXTENSION = "hybridlab"


@dataclass(frozen=True, kw_only=True)
class Access:
    """The address and credentials of a lab for its clients."""

    server: str
    ca_pem: bytes
    token: str
    user: str = "lab-admin"
    context: str = "hybridlab"


def check_writable(path: Path) -> None:
    """Refuse, before anything is started, a path that cannot or must not be written."""
    if path.is_dir():
        raise Stop(USAGE, f"--kubeconfig {path}: is a directory, name a file in it")
    if not path.parent.is_dir():
        raise Stop(USAGE, f"--kubeconfig {path}: no directory {path.parent}, create it first")
    try:
        tempfile.TemporaryFile(
            dir=path.parent
        ).close()  # os.access misjudges /proc and read-only mounts
    except OSError as error:
        raise Stop(
            USAGE, f"--kubeconfig {path}: nothing can be written to {path.parent}: {error.strerror}"
        ) from error
    if path.exists():
        owner = lab_of(path)
        if owner is None:
            raise Stop(
                USAGE,
                f"--kubeconfig {path}: exists and was not written by a lab; name another file",
            )
        if rundir.alive(owner):
            raise Stop(
                USAGE,
                f"--kubeconfig {path}: belongs to a lab that still runs ({owner.name}); name another file",
            )


def lab_of(path: Path) -> Path | None:
    """Return the directory of the lab that wrote this kubeconfig; None if no lab did."""
    try:
        extensions = json.loads(path.read_text())["clusters"][0]["cluster"]["extensions"]
        found = next(entry["extension"] for entry in extensions if entry["name"] == EXTENSION)
        return Path(found["directory"])
    except (OSError, ValueError, LookupError, TypeError, StopIteration):
        return None


def write(path: Path, access: Access, directory: Path) -> None:
    """Write the kubeconfig whole or not at all; only this user can read it.

    It is JSON, which every client reads, since JSON is YAML.
    """
    document: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": access.context,
        "clusters": [
            {
                "name": access.context,
                "cluster": {
                    "server": access.server,
                    "certificate-authority-data": base64.b64encode(access.ca_pem).decode(),
                    "extensions": [
                        {
                            "name": EXTENSION,
                            "extension": {"directory": str(directory), "pid": os.getpid()},
                        }
                    ],
                },
            }
        ],
        "users": [{"name": access.user, "user": {"token": access.token}}],
        "contexts": [
            {
                "name": access.context,
                "context": {"cluster": access.context, "user": access.user, "namespace": "default"},
            }
        ],
    }
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(handle, "w") as file:
            json.dump(document, file, indent=1)
        Path(temporary).replace(path)
    except OSError as error:
        raise Stop(USAGE, f"--kubeconfig {path}: cannot be written: {error.strerror}") from error


def remove_if_ours(path: Path, directory: Path) -> None:
    """Remove the file if it is still the file that this lab wrote."""
    if lab_of(path) == directory:
        path.unlink(missing_ok=True)
