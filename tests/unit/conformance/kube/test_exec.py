# SPDX-License-Identifier: Apache-2.0
"""An exec ends with bytes and an exit code, or as broken with all output so far, and never in
between."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conformance.errors import ProbeBroken
from conformance.kube import answers, channels
from conformance.kube.access import from_kubeconfig
from conformance.kube.channels import ExecBroken
from conformance.kube.client import Kube
from conformance.kube.transcript import ExecRecord
from tests.unit.conformance.kube.execs import Listener, flood, run, stream


def say(*frames: tuple[int, bytes], code: int | None = 0, **status: Any) -> Any:
    def serve(channel: Any, _: Any) -> None:
        for number, data in frames:
            channel.send(number, data)
        channel.status(code, **status)
        channel.close()

    return serve


def test_bytes_and_exit_code_arrive_as_they_were(kube: Kube, api: Any) -> None:
    text = "Größe ▒".encode("cp437", errors="replace") + b"\xff\xfe"
    api.exec = say((1, text[:2]), (2, b"warning"), (1, text[2:]), code=7)
    result = run(kube)
    assert (result.exit_code, result.stdout, result.stderr) == (7, text, b"warning")


def test_a_character_split_over_two_frames_stays_whole(kube: Kube, api: Any) -> None:
    api.exec = say((1, "ü".encode()[:1]), (1, "ü".encode()[1:]))
    assert run(kube).output == "ü"


def test_the_command_reaches_the_server_word_by_word(kube: Kube, api: Any) -> None:
    asked: list[dict[str, list[str]]] = []

    def serve(channel: Any, query: dict[str, list[str]]) -> None:
        asked.append(query)
        channel.status(0)
        channel.close()

    api.exec = serve
    run(kube, "powershell", "-Command", "a b & 100%")
    assert asked[0]["command"] == ["powershell", "-Command", "a b & 100%"]
    assert asked[0]["container"] == ["c"]
    assert "stdin" not in asked[0]


def test_a_lost_exit_status_is_broken_and_keeps_the_output(kube: Kube, api: Any) -> None:
    def serve(channel: Any, _: Any) -> None:
        channel.send(1, b"StatusCode : 200")
        channel.close()

    api.exec = serve
    with pytest.raises(ExecBroken, match="the exit status never arrived") as caught:
        run(kube)
    assert caught.value.stdout == b"StatusCode : 200"
    assert caught.value.retryable
    assert isinstance(caught.value, ProbeBroken)


@pytest.mark.parametrize("text", [b"no JSON", b"[1]", b"7", b"[" * 100_000])
def test_a_garbled_exit_status_is_broken(kube: Kube, api: Any, text: bytes) -> None:
    api.exec = lambda channel, _: (channel.send(3, text), channel.close())
    with pytest.raises(ExecBroken, match="the exit status is garbled"):
        run(kube)


def test_a_cut_connection_is_broken(kube: Kube, api: Any) -> None:
    api.exec = lambda channel, _: channel.cut()
    with pytest.raises(ExecBroken, match="the connection was cut"):
        run(kube)


def test_a_command_that_hangs_ends_in_time_with_what_it_said(kube: Kube, api: Any) -> None:
    def serve(channel: Any, _: Any) -> None:
        channel.send(1, b"half")
        channel.receive()

    api.exec = serve
    with pytest.raises(ExecBroken, match="did not end in time") as caught:
        run(kube, within=1.0)
    assert caught.value.stdout == b"half"


def test_a_command_that_cannot_start_is_broken_for_good(kube: Kube, api: Any) -> None:
    api.exec = say(code=None, message='exec: "nope": executable file not found in $PATH')
    with pytest.raises(ExecBroken, match="executable file not found") as caught:
        run(kube, "nope")
    assert not caught.value.retryable


@pytest.mark.parametrize(
    "message",
    [
        'OCI runtime exec failed: exec: "nope": executable file not found in $PATH: unknown',
        "hcs::System::CreateProcess powershell.exe: The system cannot find the file specified.: unknown",
        "chdir to cwd: The system cannot find the path specified.",
        "stat /probe/agent.py: no such file or directory",
        "working directory is not supported for job containers",
    ],
)
def test_what_a_container_does_not_have_is_broken_for_good(
    kube: Kube, api: Any, message: str
) -> None:
    api.exec = say(code=None, message=message)
    with pytest.raises(ExecBroken, match="the command did not start: ") as caught:
        run(kube)
    assert not caught.value.retryable


@pytest.mark.parametrize(
    "message",
    [
        "error dialing backend: dial tcp 10.0.0.11:10250: i/o timeout",
        "failed to start exec: hcs::System::CreateProcess: The wait operation timed out.: unknown",
        "error reading from error stream: read tcp 10.0.0.4:6443: connection reset by peer",
        "error sending request: Post https://10.0.0.11:10250/exec: no agent available",
    ],
)
def test_an_error_behind_the_accepted_connection_may_pass(
    kube: Kube, api: Any, message: str
) -> None:
    """API servers from 1.30 on dial the kubelet after the upgrade, so that its errors come on the error channel."""
    api.exec = say(code=None, message=message)
    with pytest.raises(
        ExecBroken, match="the exec broke between the API server and the command: "
    ) as caught:
        run(kube)
    assert caught.value.retryable
    assert caught.value.asked


@pytest.mark.parametrize(
    ("code", "retryable"), [(404, False), (403, False), (429, True), (500, True), (503, True)]
)
def test_a_refused_exec_is_broken_and_says_whether_trying_again_may_help(
    kube: Kube, api: Any, fakes: Any, code: int, retryable: bool
) -> None:
    api.exec_refusal = fakes.status(code, "Reason", "because of this")
    with pytest.raises(ExecBroken, match=f"was refused: {code} Reason because of this") as caught:
        run(kube)
    assert caught.value.retryable is retryable


def test_a_server_that_speaks_no_channel_protocol_is_refused(kube: Kube, api: Any) -> None:
    api.subprotocols = ("other",)
    api.exec = say()
    with pytest.raises(ExecBroken, match="no connection to the API server"):
        run(kube)


def test_a_server_that_accepts_and_never_answers_ends_in_the_connect_time(
    kube: Kube, api: Any
) -> None:
    kube.timings = replace(kube.timings, exec_connect=0.2)
    api.exec = None
    hold = threading.Event()
    api._exec = lambda *_: hold.wait(2)
    with pytest.raises(ExecBroken, match=r"no connection to the API server within 0\.2 s"):
        run(kube)
    hold.set()


@pytest.mark.parametrize("protocol", ["v5.channel.k8s.io", "v4.channel.k8s.io"])
def test_standard_input_arrives_whole_and_v5_ends_it(kube: Kube, api: Any, protocol: str) -> None:
    api.subprotocols = (protocol,)
    got = bytearray()
    ended: list[Any] = []

    def serve(channel: Any, _: Any) -> None:
        while len(got) < 100_000 or (protocol.startswith("v5") and not ended):
            number, data = channel.receive()
            if number == 255:
                ended.append(data)
            else:
                got.extend(data)
        channel.status(0)
        channel.close()

    api.exec = serve
    assert run(kube, stdin=b"x" * 100_000).exit_code == 0
    assert len(got) == 100_000
    assert ended == ([b"\0"] if protocol.startswith("v5") else [])


def test_execs_of_many_threads_do_not_mix(kube: Kube, api: Any) -> None:
    def serve(channel: Any, query: dict[str, list[str]]) -> None:
        channel.send(1, query["command"][1].encode())
        channel.status(int(query["command"][1]) % 5)
        channel.close()

    api.exec = serve
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda number: run(kube, "echo", str(number)), range(40)))
    assert [result.stdout for result in results] == [str(number).encode() for number in range(40)]
    assert [result.exit_code for result in results] == [number % 5 for number in range(40)]
    assert kube.version()


def test_every_exec_is_recorded_whatever_became_of_it(kube: Kube, api: Any) -> None:
    records: list[ExecRecord] = []
    api.exec = say((1, b"out"), code=3)
    run(kube, "a", "b", transcript=records.append)
    api.exec = lambda channel, _: channel.cut()
    with pytest.raises(ExecBroken):
        run(kube, transcript=records.append)
    assert (records[0].argv, records[0].exit_code, records[0].stdout, records[0].problem) == (
        ("a", "b"),
        3,
        b"out",
        "",
    )
    assert records[1].exit_code is None
    assert "cut" in records[1].problem


def test_an_api_server_with_an_ipv6_address_answers_requests_and_execs(
    fakes: Any, tmp_path: Path
) -> None:
    api = fakes.FakeApi()
    api.start(host="::1")
    api.routes["GET /api/v1/nodes"] = fakes.listing({"metadata": {"name": "n"}})
    api.exec = say((1, b"here"))
    kube = Kube(from_kubeconfig(fakes.kubeconfig(tmp_path / "kubeconfig", api.url)))
    try:
        assert kube.access.configuration.host.startswith("http://[::1]:")
        assert [node["metadata"]["name"] for node in kube.objects("v1", "Node")] == ["n"]
        assert run(kube).stdout == b"here"
    finally:
        kube.close()
        api.stop()


@pytest.mark.parametrize("code", [300, 301, 302, 303, 307, 308])
@pytest.mark.parametrize("scheme", ["ws", "http", "https"])
def test_an_exec_is_sent_nowhere_else(
    kube: Kube, api: Any, fakes: Any, code: int, scheme: str
) -> None:
    """Its credentials would go with it; the message names the host alone."""
    other = fakes.FakeApi()
    other.start()
    try:
        port = other.server.server_port
        location = f"{scheme}://me:s3cret@127.0.0.1:{port}/exec?token=s3cret"
        api.exec_refusal = (code, b"", {"Location": location})
        with pytest.raises(
            ExecBroken, match=r"a redirect to host 127\.0\.0\.1, not followed"
        ) as caught:
            run(kube)
        assert other.requests == []
        assert "s3cret" not in str(caught.value) + caught.value.transport
        assert caught.value.retryable, "as a gateway's 502"
    finally:
        other.stop()


@pytest.mark.parametrize(
    "answer", [(302, b""), (302, b"", {"Location": "http://[a"}), (302, b"", {"Location": "/x"})]
)
def test_a_redirection_that_leads_nowhere_is_told_all_the_same(
    kube: Kube, api: Any, answer: Any
) -> None:
    api.exec_refusal = answer
    with pytest.raises(
        ExecBroken, match=r"not an answer from a Kubernetes API server.*a redirect to"
    ):
        run(kube)


@pytest.mark.parametrize("code", [200, 403, 404])
def test_a_gateway_s_page_is_no_answer_to_an_exec(kube: Kube, api: Any, code: int) -> None:
    api.exec_refusal = (code, b"<html>Sign in", {"Content-Type": "text/html"})
    with pytest.raises(
        ExecBroken,
        match=f"not an answer from a Kubernetes API server .{code}, a web page: '<html>Sign in'",
    ):
        run(kube)


def test_an_exec_whose_acceptance_comes_byte_by_byte_has_an_end(kube: Kube, api: Any) -> None:
    kube.timings = replace(kube.timings, exec_connect=0.5)

    def trickle(handler: Any, _: Any) -> None:
        try:
            for _ in range(200):
                handler.wfile.write(b"H")
                handler.wfile.flush()
                time.sleep(0.05)
        except OSError:
            pass

    api._exec = trickle
    begin = time.monotonic()
    with pytest.raises(ExecBroken, match="no connection to the API server"):
        run(kube)
    assert time.monotonic() - begin < 4.0


@pytest.mark.parametrize("how", ["bytes", "pings"])
def test_a_command_whose_output_comes_byte_by_byte_ends_in_time(
    kube: Kube, api: Any, how: str
) -> None:
    def trickle(channel: Any, _: Any) -> None:
        try:
            channel.sock.sendall(b"\x82\x7e\x10\x00" if how == "bytes" else b"")
            for _ in range(100):
                channel.sock.sendall(b"a" if how == "bytes" else b"\x89\x00")
                time.sleep(0.1)
        except OSError:
            pass

    api.exec = trickle
    begin = time.monotonic()
    with pytest.raises(ExecBroken, match="did not end in time"):
        run(kube, within=1.0)
    assert time.monotonic() - begin < 5.0


def test_output_of_many_lines_ends_at_64_mb(
    kube: Kube, api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (answers.LINE, channels.ANSWER) == (16 << 20, 64 << 20)
    monkeypatch.setattr(channels, "ANSWER", 4 << 20)
    line = b"x" * 65535 + b"\n"
    api.exec = flood(3 << 20, line)
    assert len(run(kube, within=60).stdout) == 3 << 20
    api.exec = flood(8 << 20, line)
    with pytest.raises(ExecBroken, match="the command's output exceeds 4 MB") as caught:
        run(kube, within=60)
    assert not caught.value.retryable


def test_a_message_without_end_is_cut_off(
    kube: Kube, api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channels, "ANSWER", 1 << 20)

    def serve(channel: Any, _: Any) -> None:
        try:
            channel.sock.sendall(b"\x82\x7f" + (1 << 40).to_bytes(8, "big") + b"\x01")
            while True:
                channel.sock.sendall(b"x" * 65536)
        except OSError:
            pass

    api.exec, listener = serve, Listener()
    with pytest.raises(ExecBroken, match="exceeds 1 MB"):
        run(kube, within=60)
    stream(kube, listener, silence=30)
    listener.wait(lambda: listener.ends)
    assert "exceeds 1 MB" in listener.ends[0].problem
