# SPDX-License-Identifier: Apache-2.0
"""Bodies in protobuf, as kubectl sends them, become the objects that JSON would have been."""

from __future__ import annotations

from typing import Any

import pytest

from hybridlab.api.contract import ApiError
from hybridlab.api.http.protobuf import decode


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def text(number: int, value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(raw)) + raw


def integer(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value & (1 << 64) - 1)


def envelope(api_version: str, kind: str, message: bytes) -> bytes:
    return (
        b"k8s\x00"
        + text(1, text(1, api_version) + text(2, kind))
        + text(2, message)
        + text(3, "")
        + text(4, "")
    )


def test_a_pod_keeps_pointers_that_are_zero_and_loses_other_zeros() -> None:
    port = integer(3, 80) + text(1, "") + integer(2, 0)
    container = text(1, "c") + text(2, "image") + text(6, port)
    spec = (
        text(2, container)
        + integer(4, 0)
        + integer(11, 0)
        + text(7, text(1, "kubernetes.io/os") + text(2, "linux"))
    )
    volume = text(1, text(1, "v") + text(2, text(2, b"")))
    pod = text(1, text(1, "p") + text(8, b"")) + text(2, volume + spec)
    assert decode(envelope("v1", "Pod", pod)) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {
            "volumes": [{"name": "v", "emptyDir": {}}],
            "containers": [{"name": "c", "image": "image", "ports": [{"containerPort": 80}]}],
            "terminationGracePeriodSeconds": 0,
            "nodeSelector": {"kubernetes.io/os": "linux"},
        },
    }


def test_special_types_become_what_json_has() -> None:
    named = text(
        1,
        text(2, "TCP") + integer(3, 80) + text(4, integer(1, 1) + integer(2, 0) + text(3, "http")),
    )
    service = text(1, text(1, "s") + text(8, integer(1, 1700000000))) + text(2, named)
    decoded = decode(envelope("v1", "Service", service))
    assert decoded["metadata"]["creationTimestamp"] == "2023-11-14T22:13:20Z"
    assert decoded["spec"]["ports"] == [{"protocol": "TCP", "port": 80, "targetPort": "http"}]


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"{}", "not in Kubernetes' protobuf encoding"),
        (b"k8s\x00\xff\xff", "not in Kubernetes' protobuf encoding"),
        (envelope("v1", "Widget", b""), "not emulated: protobuf bodies of Widget in v1"),
        (envelope("v1", "Pod", text(1, b"\xff")), "not in Kubernetes' protobuf encoding"),
    ],
)
def test_a_body_that_cannot_be_read_is_refused(raw: bytes, words: str) -> None:
    with pytest.raises(ApiError) as caught:
        decode(raw)
    assert (caught.value.code, words in caught.value.message) == (400, True)


def test_the_server_takes_it(run: Any) -> None:
    async def scenario(api: Any) -> None:
        about = text(1, text(1, "default") + text(2, "list") + text(5, "pods"))
        body = envelope("authorization.k8s.io/v1", "SelfSubjectAccessReview", text(2, about))
        headers = {"Content-Type": "application/vnd.kubernetes.protobuf"}
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        answer = await api.call("POST", path, body, headers=headers)
        assert (answer.code, answer.body["status"]["allowed"]) == (201, True)
        assert answer.body["spec"]["resourceAttributes"]["verb"] == "list"

    run(scenario)
