# SPDX-License-Identifier: Apache-2.0
"""Kubeconfigs of tests for the stand-in API server."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
import trustme

from conformance.errors import ClusterUnusable
from conformance.kube.access import from_kubeconfig
from conformance.kube.client import Kube
from conformance.settings import load_timings

RUN = load_timings().run
OURS, THEIRS = trustme.CA(), trustme.CA()


def unusable(path: Path) -> str:
    kube = Kube(from_kubeconfig(path), RUN)
    with pytest.raises(ClusterUnusable) as caught:
        kube.version()
    assert len(caught.value.reasons) == 1
    return str(caught.value)


def with_plugin(
    tmp_path: Path, fakes: Any, script: str, server: str = "https://127.0.0.1:1"
) -> Path:
    """Write a kubeconfig whose user gets credentials from a program: a shell script of these
    lines."""
    program = tmp_path / "login"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(program), "args": ["get-token"],
              "interactiveMode": "Never"}  # fmt: skip
    path: Path = fakes.kubeconfig(tmp_path / "k", server, users=[{"name": "me", "user": {"exec": plugin}}],
        contexts=[{"name": "here", "context": {"cluster": "c", "user": "me"}}])  # fmt: skip
    return path


def token(**body: Any) -> str:
    parts = (
        base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
        for part in ({"alg": "x"}, body)
    )
    return ".".join([*parts, "c2ln"])
