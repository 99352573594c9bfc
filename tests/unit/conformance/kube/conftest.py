# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the kube tests: a fake API server and a client of it."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conformance.kube.access import from_kubeconfig
from conformance.kube.client import Kube
from conformance.settings import load_timings
from tests.unit.conformance.kube import fake_api
from tests.unit.conformance.kube.kubeconfig_files import OURS

FAST = replace(load_timings().run, api_connect=2.0, api_answer=2.0, api_retry=0.0)


@pytest.fixture
def fakes() -> Any:
    """Return the module of the fake API server."""
    return fake_api


@pytest.fixture
def api() -> Iterator[Any]:
    """Provide a running fake API server."""
    server = fake_api.FakeApi()
    server.start()
    yield server
    server.stop()


@pytest.fixture
def kube(api: Any, tmp_path: Path) -> Iterator[Kube]:
    """Provide a client of the fake API server."""
    client = Kube(from_kubeconfig(fake_api.kubeconfig(tmp_path / "kubeconfig", api.url)), FAST)
    yield client
    client.close()


@pytest.fixture
def tls_api(fakes: Any) -> Iterator[Any]:
    """Provide an API server that accepts a client's certificate but does not require it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    OURS.issue_cert("127.0.0.1").configure_cert(context)
    OURS.configure_trust(context)
    context.verify_mode = ssl.CERT_OPTIONAL
    server = fakes.FakeApi()
    server.start(context)
    server.exec = lambda channel, _: (channel.send(1, b"here"), channel.status(0), channel.close())
    yield server
    server.stop()
