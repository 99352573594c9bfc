# SPDX-License-Identifier: Apache-2.0
"""A minimal client for one exec over one WebSocket, to measure the lab's share of the time."""

from __future__ import annotations

import json
import ssl
from collections.abc import Sequence
from urllib.parse import urlencode

import websocket
from kubernetes import client


def exec_once(api: client.ApiClient, namespace: str, pod: str, command: Sequence[str]) -> bytes:
    """Run a command and return its standard output. Raise SystemExit if it did not end with status
    0."""
    settings = api.configuration
    query = urlencode(
        [("command", word) for word in command] + [("stdout", "true"), ("stderr", "true")]
    )
    connection = websocket.create_connection(
        f"{settings.host.replace('https', 'wss')}/api/v1/namespaces/{namespace}/pods/{pod}/exec?{query}",
        timeout=30,
        subprotocols=["v5.channel.k8s.io"],
        header=[
            f"Authorization: {settings.get_api_key_with_prefix('BearerToken', alias='authorization')}"
        ],
        sslopt={"ca_certs": settings.ssl_ca_cert, "cert_reqs": ssl.CERT_REQUIRED},
        suppress_origin=True,
    )
    channels: dict[int, bytes] = {1: b"", 2: b"", 3: b""}
    try:
        while True:
            opcode, data = connection.recv_data()
            if opcode == websocket.ABNF.OPCODE_CLOSE:
                break
            channels[data[0]] += data[1:]
    finally:
        connection.close(timeout=0)
    status = json.loads(channels[3] or "{}")
    if status.get("status") != "Success":
        raise SystemExit(
            f"exec of {command} in {pod} failed: {status or 'no status'} {channels[2]!r}"
        )
    return channels[1]
