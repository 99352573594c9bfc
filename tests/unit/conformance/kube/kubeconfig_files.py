# SPDX-License-Identifier: Apache-2.0
"""Kubeconfigs of tests, and the identity that the API server derives from their requests."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import trustme

OURS = trustme.CA()
V1 = "client.authentication.k8s.io/v1"


def content(server: str, user: Any, **cluster: Any) -> dict[str, Any]:
    """Return a kubeconfig with a single user that has these credentials."""
    authority = base64.b64encode(OURS.cert_pem.bytes()).decode()
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [
            {
                "name": "c",
                "cluster": {"server": server, "certificate-authority-data": authority, **cluster},
            }
        ],
        "users": [{"name": "u", "user": user}],
        "contexts": [
            {"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "demo"}}
        ],
    }


def write(path: Path, whole: Any) -> Path:
    path.write_text(json.dumps(whole))
    return path


WHO = ("authorization", "impersonate-")


def who(request: Any) -> list[tuple[str, str]]:
    """Return the headers that identify the user, with keys in lower case."""
    lines = ((key.lower(), value) for key, value in request.lines)
    return sorted((key, value) for key, value in lines if key.startswith(WHO))
