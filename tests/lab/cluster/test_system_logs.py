# SPDX-License-Identifier: Apache-2.0
"""The log of every system container can be read, and is not empty."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.lab.lab_process import running_lab

pytestmark = pytest.mark.skipif(
    shutil.which("kubectl") is None, reason="kubectl is not on the PATH"
)


def test_no_system_container_is_silent(tmp_path: Path) -> None:
    with running_lab(tmp_path, "--profile", "small") as lab:
        pods = json.loads(lab.kubectl("get", "pods", "-A", "-o", "json").stdout)["items"]
        silent = [
            f"{pod['metadata']['name']}/{container['name']}"
            for pod in pods
            for container in pod["spec"]["containers"]
            if not lab.kubectl(
                "logs",
                "-n",
                pod["metadata"]["namespace"],
                pod["metadata"]["name"],
                "-c",
                container["name"],
            ).stdout
        ]
        assert pods
        assert silent == []
