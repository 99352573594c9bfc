# SPDX-License-Identifier: Apache-2.0
"""A reply that no API server would send does not count as an answer, no redirection is followed,
and answers have a limit."""

from __future__ import annotations

import contextlib
import gzip
import json
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from conformance.errors import ClusterUnusable
from conformance.kube import answers
from conformance.kube.client import Kube
from conformance.kube.refused import ApiRefused, ApiUnreachable
from conformance.kube.waits import Waits

PAGE = b"<!DOCTYPE html><html><title>Sign in</title></html>"
HTML = {"Content-Type": "text/html; charset=utf-8"}
ELSEWHERE = {"Location": "http://me:s3cret@sso.example:8443/login?token=s3cret"}
FOREIGN = [
    pytest.param((200, PAGE, HTML), "200 OK, a web page: .*Sign in", id="page"),
    pytest.param((200, PAGE), "not a JSON object: .*Sign in", id="page that is said to be JSON"),
    pytest.param((200, b""), "not a JSON object: empty", id="empty"),
    pytest.param((200, b"[" * 100_000), "not a JSON object: ", id="nested without end"),
    pytest.param(
        (200, b'{"status":' + b"[" * 900 + b"]" * 900 + b"}"),
        "not a JSON object: ",
        id="a status nested beyond what can be read",
    ),
    pytest.param((200, b"[1]"), r"not a JSON object: '\[1\]'", id="no object"),
    pytest.param(
        (302, b"", ELSEWHERE),
        r"302 Found, a redirect to host sso\.example, not followed",
        id="redirection",
    ),
    pytest.param(
        (307, b"", {"Location": "/here"}), ".*a redirect to host itself", id="redirection to itself"
    ),
    pytest.param(
        (308, b"", {"Location": "http://[a"}),
        ".*a redirect to an unreadable address",
        id="garbled",
    ),
    pytest.param((304, b""), "304 Not Modified", id="not modified"),
    pytest.param((403, PAGE, HTML), "403 Forbidden, a web page", id="page of a firewall"),
    pytest.param((404, PAGE), "404 Not Found, a web page", id="page of a web server"),
]


def patient(kube: Kube, seconds: float = 5.0) -> None:
    kube.timings = replace(kube.timings, api_retry=seconds)


@pytest.mark.parametrize(("answer", "expected"), FOREIGN)
def test_what_no_api_server_answers_is_no_answer(
    kube: Kube, api: Any, answer: Any, expected: str
) -> None:
    """Neither an object that is not there nor a right that is missing follows from it, and no secret of it is shown."""
    api.routes["GET /api/v1/namespaces/n/pods/p"] = answer
    with pytest.raises(
        ApiRefused, match=r"not an answer from a Kubernetes API server \(" + expected
    ) as caught:
        kube.find("v1", "Pod", "p", "n")
    assert not caught.value.forbidden
    assert not caught.value.not_found
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(("answer", "expected"), FOREIGN)
def test_a_gateway_s_answer_is_asked_about_again_as_its_502_is(
    kube: Kube, api: Any, fakes: Any, answer: Any, expected: str
) -> None:
    patient(kube)
    given = [answer, fakes.listing({"metadata": {"name": "n"}})]
    api.routes["GET /api/v1/nodes"] = lambda _: given.pop(0)
    assert [node["metadata"]["name"] for node in kube.objects("v1", "Node")] == ["n"]


def test_a_list_without_items_is_no_empty_list(kube: Kube, api: Any) -> None:
    api.routes["GET /api/v1/nodes"] = (200, {"error": "please sign in"})
    with pytest.raises(ApiRefused, match="not an answer from a Kubernetes API server"):
        kube.objects("v1", "Node")
    api.routes["GET /api/v1/nodes"] = (200, {"kind": "NodeList", "items": None})
    assert kube.objects("v1", "Node") == []


@pytest.mark.parametrize(("answer", "expected"), FOREIGN)
def test_first_contact_with_a_gateway_is_one_line(
    kube: Kube, api: Any, answer: Any, expected: str
) -> None:
    api.routes["GET /version"] = answer
    with pytest.raises(
        ClusterUnusable, match=r"is not a Kubernetes API server, or a gateway answered in its place"
    ) as caught:
        kube.version()
    assert len(caught.value.reasons) == 1
    assert "\n" not in str(caught.value)


def test_a_write_that_a_gateway_answered_is_not_repeated(kube: Kube, api: Any) -> None:
    patient(kube)
    api.routes["POST /x"] = (200, PAGE, HTML)
    with pytest.raises(ApiRefused, match="POST /x: not an answer from a Kubernetes API server"):
        kube.request("POST", "/x", body={})
    assert len(api.requests) == 1


@pytest.fixture
def other(fakes: Any) -> Iterator[Any]:
    server = fakes.FakeApi()
    server.start()
    yield server
    server.stop()


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_no_request_is_sent_to_where_an_answer_redirects(
    kube: Kube, api: Any, other: Any, code: int
) -> None:
    api.routes["(GET|POST|DELETE|PATCH) /x"] = (code, b"", {"Location": f"{other.url}/x"})
    for method in ("GET", "POST", "DELETE", "PATCH"):
        api.routes[f"{method} /x"] = (code, b"", {"Location": f"{other.url}/x"})
        with pytest.raises(ApiRefused, match=r"a redirect to host 127\.0\.0\.1, not followed"):
            kube.request(method, "/x", body=None if method == "GET" else {})
    assert other.requests == []


def test_a_pod_s_log_may_be_any_text_but_a_gateway_s_page(kube: Kube, api: Any) -> None:
    path = "GET /api/v1/namespaces/n/pods/p/log"
    api.routes[path] = (200, b"<b>not</b> JSON", {"Content-Type": "text/plain"})
    assert kube.logs("n", "p", "c") == "<b>not</b> JSON"
    api.routes[path] = (200, PAGE, HTML)
    with pytest.raises(ApiRefused, match="a web page"):
        kube.logs("n", "p", "c")


def trickle(head: bytes, *, every: float = 0.1) -> Callable[[Any], None]:
    """Sends ``head`` byte by byte, and then spaces for ever."""

    def answer(handler: Any) -> None:
        handler.close_connection = True
        try:
            for byte in head + b" " * 400:
                handler.wfile.write(bytes([byte]))
                handler.wfile.flush()
                time.sleep(every)
        except OSError:
            pass

    return answer


@pytest.mark.parametrize(
    "head",
    [b"HTTP/1.1 2", b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n{",
     b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n100\r\n"],
    ids=["headers", "body", "body until the end", "chunked body"],
)  # fmt: skip
@pytest.mark.parametrize("what", ["read", "logs"])
def test_an_answer_that_comes_byte_by_byte_has_an_end(
    kube: Kube, api: Any, head: bytes, what: str
) -> None:
    kube.timings = replace(kube.timings, api_connect=0.3, api_answer=0.7, api_retry=0.0)
    every = 0.7 / len(head) if len(head) > 30 else 0.1
    api.routes["GET /x"] = api.routes["GET /api/v1/namespaces/n/pods/p/log"] = (
        200,
        trickle(head, every=every / 4),
    )
    begin = time.monotonic()
    with pytest.raises(ApiUnreachable, match=r"[Rr]ead timed out"):
        kube.read("/x") if what == "read" else kube.logs("n", "p", "c")
    assert time.monotonic() - begin < 5.0


def test_a_watch_may_last_longer_than_an_answer(kube: Kube, api: Any) -> None:
    kube.timings = replace(kube.timings, api_connect=0.1, api_answer=0.2)

    def slowly(handler: Any) -> None:
        handler.close_connection = True
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
        for number in range(4):
            time.sleep(0.3)
            event = {"type": "ADDED", "object": {"metadata": {"name": str(number)}}}
            handler.wfile.write(json.dumps(event).encode() + b"\n")
            handler.wfile.flush()

    api.routes["GET /api/v1/nodes"] = (200, slowly)
    assert len(list(kube.watch("v1", "Node", None, "1", seconds=5.0))) == 4


def test_a_watch_whose_events_come_byte_by_byte_ends_when_it_is_over(kube: Kube, api: Any) -> None:
    kube.timings = replace(kube.timings, api_connect=0.3)
    api.routes["GET /api/v1/nodes"] = (200, trickle(b'HTTP/1.1 200 OK\r\n\r\n{"type":', every=0.05))
    begin = time.monotonic()
    assert list(kube.watch("v1", "Node", None, "1", seconds=1.0)) == []
    assert time.monotonic() - begin < 5.0


def sparse(size: int) -> bytes:
    return b'{"items": [], "x": "' + b" " * size + b'"}'


def test_an_answer_of_64_mb_is_taken_and_a_larger_one_is_not(
    kube: Kube, api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert answers.PAGE == 64 << 20
    monkeypatch.setattr(answers, "PAGE", 1 << 20)
    kube.timings = replace(kube.timings, api_answer=20.0)
    patient(kube)
    api.routes["GET /x"] = (200, sparse((1 << 20) - 100))
    assert kube.read("/x")["items"] == []
    api.routes["GET /x"] = (200, sparse(1 << 20))
    with pytest.raises(
        ApiRefused, match=r"GET /x: 200 TooLarge: the answer exceeds 1 MB \(decompressed\)"
    ):
        kube.read("/x")
    assert len(api.requests) == 2, "it is as large when asked for again"
    api.routes["GET /x"] = (200, {"items": []})
    assert kube.read("/x") == {"items": []}


@pytest.mark.parametrize("coding", ["gzip", "gzip, gzip"])
def test_a_gzip_bomb_is_stopped_while_it_is_unpacked(kube: Kube, api: Any, coding: str) -> None:
    """200 MB in 200 kB, or in less than 2 kB."""
    kube.timings = replace(kube.timings, api_answer=30.0)
    bomb = gzip.compress(sparse(200 << 20), 9)
    bomb = gzip.compress(bomb, 9) if "," in coding else bomb
    api.routes["GET /x"] = (200, bomb, {"Content-Encoding": coding})
    tracemalloc.start()
    try:
        with pytest.raises(ApiRefused, match="exceeds 64 MB"):
            kube.read("/x")
        assert tracemalloc.get_traced_memory()[1] < 160 << 20
    finally:
        tracemalloc.stop()


def test_what_is_packed_is_read(kube: Kube, api: Any) -> None:
    api.routes["GET /x"] = (200, gzip.compress(b'{"a": 1}'), {"Content-Encoding": "gzip"})
    assert kube.read("/x") == {"a": 1}


def test_connections_are_used_again_whatever_they_answered(
    kube: Kube, api: Any, fakes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []
    monkeypatch.setattr("urllib3.connection.HTTPConnection._new_conn", counting(made), raising=True)
    given: list[Any] = [
        (200, {"items": []}),
        fakes.status(404, "NotFound", "no"),
        (302, b""),
        (200, b""),
        (500, b"x"),
    ]
    for answer in given:
        api.routes["GET /x"] = answer
        with contextlib.suppress(ApiRefused):
            kube.read("/x")
    assert len(made) == 1


def counting(made: list[Any]) -> Callable[[Any], Any]:
    from urllib3.connection import HTTPConnection

    usual = HTTPConnection._new_conn

    def connect(self: Any) -> Any:
        made.append(self)
        return usual(self)

    return connect


@pytest.mark.parametrize("code", [429, 500, 503])
def test_a_watch_that_is_refused_is_asked_for_again(
    kube: Kube, api: Any, fakes: Any, code: int
) -> None:
    patient(kube)
    event = json.dumps({"type": "ADDED", "object": {"metadata": {"name": "p"}}}).encode() + b"\n"
    given = [
        fakes.status(code, "Reason", "not now"),
        fakes.status(code, "Reason", "not now"),
        (200, event),
    ]
    api.routes["GET /api/v1/pods"] = lambda _: given.pop(0)
    assert len(list(kube.watch("v1", "Pod", None, "1", seconds=10))) == 1


def test_a_refused_watch_waits_for_as_long_as_the_server_asks(
    kube: Kube, api: Any, fakes: Any
) -> None:
    patient(kube)
    given = [(*fakes.status(503, "Reason", "not now"), {"Retry-After": "1"}), (200, b"\n")]
    api.routes["GET /api/v1/pods"] = lambda _: given.pop(0)
    begin = time.monotonic()
    assert list(kube.watch("v1", "Pod", None, "1", seconds=10)) == []
    assert time.monotonic() - begin >= 1.0


@pytest.mark.parametrize("answer", [(302, b"", ELSEWHERE), (200, PAGE, HTML), (200, b"no JSON\n")])
def test_a_gateway_s_answer_to_a_watch_is_no_event(kube: Kube, api: Any, answer: Any) -> None:
    api.routes["GET /api/v1/pods"] = answer
    with pytest.raises(
        ApiRefused, match="WATCH /api/v1/pods: not an answer from a Kubernetes API server"
    ):
        list(kube.watch("v1", "Pod", None, "1", seconds=1))


@pytest.mark.parametrize("refusal", [(429, 1), (500, 1), (503, 99), (302, 99), (200, 99)])
def test_waits_go_on_while_watches_are_refused(
    kube: Kube, api: Any, fakes: Any, refusal: tuple[int, int]
) -> None:
    """Also where none is ever allowed: objects are listed again and again."""
    code, times = refusal
    patient(kube, 1.0)
    refused = [0]

    def answer(request: Any) -> Any:
        if request.query.get("watch") != "true":
            ready = refused[0] > 1 or times == 1
            return fakes.listing(*[{"metadata": {"name": "p", "uid": "u"}}] * ready)
        refused[0] += 1
        return (code, b"<html>", HTML) if code < 400 else fakes.status(code, "Reason", "not now")

    api.routes["GET /api/v1/namespaces/n/pods"] = answer
    seen = (bool(now) for now in Waits(kube).states("v1", "Pod", "n", within=20.0))
    assert any(seen)


def test_a_wait_ends_in_time_however_often_its_watch_is_refused(
    kube: Kube, api: Any, fakes: Any
) -> None:
    patient(kube, 30.0)
    api.routes["GET /api/v1/namespaces/n/pods"] = lambda request: (
        fakes.status(503, "Reason", "not now") if "watch" in request.query else fakes.listing()
    )
    begin = time.monotonic()
    assert not any(Waits(kube).states("v1", "Pod", "n", within=1.5))
    assert 1.0 < time.monotonic() - begin < 10.0


GONE = b'{"type": "ERROR", "object": {"code": 410, "reason": "Expired"}}\n'


@pytest.mark.parametrize("watched", [b"", GONE, GONE.replace(b"410", b"500")])
def test_a_watch_that_ends_at_once_makes_no_flood_of_requests(
    kube: Kube, api: Any, fakes: Any, watched: bytes
) -> None:
    api.routes["GET /api/v1/namespaces/n/pods"] = lambda request: (
        (200, watched) if "watch" in request.query else fakes.listing()
    )
    assert not any(Waits(kube).states("v1", "Pod", "n", within=1.5))
    assert 4 < len(api.requests) < 20


ODD: tuple[Any, ...] = (
    {"items": 5},
    {"items": {"a": 1}},
    {"items": "text"},
    {"items": ["text"]},
    {"items": True},
)


@pytest.mark.parametrize("odd", ODD, ids=str)
def test_a_list_whose_items_are_none_is_a_broken_answer(odd: Any) -> None:
    with pytest.raises(ApiRefused, match="not an answer from a Kubernetes API server"):
        answers.page(json.dumps(odd).encode(), "GET")


@pytest.mark.parametrize("code", ["x", [5], {"a": 1}, None, True, 1e400])
def test_an_error_on_a_watch_has_whatever_code_a_server_gives_it(code: Any) -> None:
    error = {"type": "ERROR", "object": {"code": code, "message": "m"}}
    with pytest.raises(ApiRefused, match="m"):
        answers.event(json.dumps(error).encode(), "WATCH")


def test_a_watch_that_is_forbidden_ends_the_wait(kube: Kube, api: Any, fakes: Any) -> None:
    patient(kube)
    api.routes["GET /api/v1/namespaces/n/pods"] = lambda request: (
        fakes.status(403, "Forbidden", "no watch") if "watch" in request.query else fakes.listing()
    )
    with pytest.raises(ApiRefused, match="403 Forbidden"):
        list(Waits(kube).states("v1", "Pod", "n", within=20.0))


HOSTILE = "a\n::error::b\x1b[2J"
ONE_LINE = "a ::error::b\\x1b[2J"


def test_names_labels_and_conditions_are_lines_and_texts_stay_as_they_are(
    kube: Kube, api: Any
) -> None:
    """In lists, alone, and in what is said of an event."""
    text = "kept\n::as it is::\x1b"
    obj = {
        "metadata": {
            "name": HOSTILE,
            "labels": {HOSTILE: HOSTILE},
            "annotations": {"a": text},
            "managedFields": [{"manager": text}],
        },
        "status": {"conditions": [{"message": HOSTILE}], "nodeInfo": {"kernelVersion": HOSTILE}},
        "reason": HOSTILE,
        "data": {"log": text},
    }
    api.routes["GET /api/v1/namespaces/n/configmaps/c"] = (200, json.dumps(obj).encode())
    page = {"metadata": {}, "items": [obj]}
    api.routes["GET /api/v1/namespaces/n/configmaps"] = (200, json.dumps(page).encode())
    for found in (
        kube.read("/api/v1/namespaces/n/configmaps/c"),
        kube.read("/api/v1/namespaces/n/configmaps")["items"][0],
        answers.event(json.dumps({"type": "ADDED", "object": obj}).encode(), "GET")["object"],
    ):
        assert found["metadata"] == {
            "name": ONE_LINE,
            "labels": {ONE_LINE: ONE_LINE},
            "annotations": {"a": text},
            "managedFields": [{"manager": text}],
        }
        assert found["status"] == {
            "conditions": [{"message": ONE_LINE}],
            "nodeInfo": {"kernelVersion": ONE_LINE},
        }
        assert found["reason"] == ONE_LINE
        assert found["data"] == {"log": text}


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("windows-2019", "windows-2019"),
        ("system:node:a.b", "system:node:a.b"),
        ("a" * 253, "a" * 253),
        ("../../etc/x", "..\\x2f..\\x2fetc\\x2fx"),
        ("a/../\u20ac", "a\\x2f..\\x2f\\u20ac"),
        ("a" * 300, "a" * 200),
        ("/" * 100, "\\x2f" * 50),
        ("", ""),
    ],
)
def test_a_name_is_one_part_of_a_path(name: str, read: str) -> None:
    data = json.dumps({"metadata": {"name": name}}).encode()
    assert answers.document(data, "GET")["metadata"]["name"] == read


@pytest.mark.parametrize("odd", [5, "name", ["x"], None])
def test_objects_of_odd_shapes_are_read_as_before(odd: Any) -> None:
    data = json.dumps({"metadata": odd, "items": odd, "object": odd, "status": odd}).encode()
    assert answers.document(data, "GET")["metadata"] == odd
