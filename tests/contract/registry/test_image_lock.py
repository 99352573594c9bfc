# SPDX-License-Identifier: Apache-2.0
"""``calico-conformance images --lock`` with crane itself, on a registry of loopback."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from conformance.cli import main
from conformance.pods import image_lock
from tests.contract.registry.server import Registry, digest, manifest, registry

HUB = "index.docker.io/v2/library"
MICROSOFT = "mcr.microsoft.com/v2"
ASKED = [
    f"{HUB}/busybox/manifests/1.37.0",
    f"{HUB}/python/manifests/3.13.1-alpine3.21",
    f"{HUB}/nginx/manifests/1.27.5-alpine",
    f"{MICROSOFT}/oss/kubernetes/windows-host-process-containers-base-image/manifests/v1.0.0",
]


@pytest.fixture
def upstream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    """The registries of all images, which crane reaches by its proxy."""
    if not shutil.which(image_lock.CRANE):
        pytest.skip("no crane on the PATH (docs/images.md)")
    with registry(tmp_path) as one:
        for name, value in one.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
        monkeypatch.delenv("NO_PROXY", raising=False)
        yield one


def test_each_image_but_server_core_has_the_digest_of_all_its_platforms(
    upstream: Registry, tmp_path: Path
) -> None:
    program = [sys.executable, "-m", "conformance.cli", "images", "--lock"]
    done = subprocess.run(program, env=os.environ, capture_output=True, text=True, check=True)
    locked = yaml.safe_load(done.stdout)
    assert [choice["digest"] for choice in locked.values()] == [
        digest(manifest(path)) for path in ASKED
    ]
    assert [asked for asked in upstream.asked if not asked.endswith("/v2/")] == [
        f"GET {path}" for path in ASKED
    ]
    (asked,) = done.stdout.splitlines()[0].split("written by ")[1:]
    assert asked == "calico-conformance images --lock"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("404", ": MANIFEST_UNKNOWN: manifest unknown"),
        ("unauthorized", ": UNAUTHORIZED: authentication required"),
        (
            "page",
            " sent no manifest; its answer begins '<!DOCTYPE html><title>Please log in</title>'",
        ),
        ("nothing", " did not end within 5 s"),
    ],
)
def test_what_sends_no_manifest_is_one_line_and_nothing_is_printed(
    upstream: Registry,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    answer: str,
    words: str,
) -> None:
    if answer == "nothing":
        monkeypatch.setattr(image_lock, "WITHIN", 5.0)
    upstream.answer = answer
    assert main(["images", "--lock"]) == 7
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("ERROR: images --lock: ")
    assert "docker.io/library/busybox:1.37.0" in printed.err
    assert printed.err.endswith(f"{words}\n")
    assert len(printed.err.splitlines()) == 1


def test_a_registry_that_refuses_connections_is_one_line(
    upstream: Registry, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    assert main(["images", "--lock"]) == 7
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.endswith("connection refused\n")


@pytest.mark.parametrize("answer", ["another type", "another digest"])
def test_the_digest_is_the_manifest_s_own_whatever_the_registry_says_of_it(
    upstream: Registry, answer: str
) -> None:
    upstream.answer = answer
    found = image_lock.digest("docker.io/library/busybox:1.37.0")
    assert found == digest(manifest(ASKED[0]))
