# SPDX-License-Identifier: Apache-2.0
"""exec over WebSocket: output, stdin and its end, exit status, and what it says when nothing can be run."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import aiohttp
import pytest
import websocket

from hybridlab.api.exec_faults import ExecFault
from tests.unit.hybridlab.builders import a_pod

V4, V5 = "v4.channel.k8s.io", "v5.channel.k8s.io"
PODS = "/api/v1/namespaces/default/pods"


def query(argv: Sequence[str], **more: str) -> str:
    return urlencode(
        [*(("command", word) for word in argv), *{"stdout": "1", "stderr": "1", **more}.items()]
    )


@dataclass
class Ran:
    """What an exec gave back."""

    out: bytes
    err: bytes
    status: Any
    protocol: str | None
    code: int | None


async def execute(
    api: Any,
    argv: Sequence[str],
    *,
    protocol: str = V5,
    stdin: bytes | None = None,
    close: bool = True,
    **more: str,
) -> Ran:
    if stdin is not None:
        more["stdin"] = "1"
    url = f"{api.server.url}{PODS}/p/exec?{query(argv, **more)}"
    headers = {"Authorization": "Bearer admin-token"}
    channels: dict[int, bytes] = {}
    async with (
        asyncio.timeout(5),
        api.session.ws_connect(url, protocols=[protocol], headers=headers, ssl=api.tls) as ws,
    ):
        if stdin is not None:
            for part in (stdin[:3], stdin[3:]):
                await ws.send_bytes(b"\x00" + part)
            if close:
                await ws.send_bytes(b"\xff\x00")
        async for message in ws:
            channels[message.data[0]] = channels.get(message.data[0], b"") + message.data[1:]
        status = json.loads(channels[3]) if 3 in channels else None
        return Ran(channels.get(1, b""), channels.get(2, b""), status, ws.protocol, ws.close_code)


@pytest.mark.parametrize("protocol", [V4, V5])
def test_a_command_gives_output_and_success_on_their_channels(run: Any, protocol: str) -> None:
    async def scenario(api: Any) -> None:
        await api.running_pod("p")
        ran = await execute(api, ["echo", "a b", "c"], protocol=protocol)
        assert (ran.out, ran.err, ran.protocol, ran.code) == (b"a b c", b"noise", protocol, 1000)
        assert ran.status == {"metadata": {}, "status": "Success"}

    run(scenario)


def test_the_exit_status_comes_as_a_cause(run: Any) -> None:
    async def scenario(api: Any) -> None:
        await api.running_pod("p")
        status = (await execute(api, ["fail", "7"])).status
        assert (status["status"], status["reason"]) == ("Failure", "NonZeroExitCode")
        assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "7"}]
        assert status["message"].endswith("command terminated with exit code 7")

    run(scenario)


def test_stdin_ends_by_half_close_in_v5_only(run: Any) -> None:
    async def scenario(api: Any) -> None:
        await api.running_pod("p")
        ran = await execute(api, ["cat"], stdin=b"hello")
        assert (ran.out, ran.status["status"]) == (b"hello", "Success")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await execute(api, ["cat"], stdin=b"hello", protocol=V4)

    run(scenario)


def test_a_missing_program_is_named_as_the_runtime_does(run: Any) -> None:
    async def scenario(api: Any) -> None:
        await api.running_pod("p")
        status = (await execute(api, ["nope"])).status
        assert (status["status"], status["reason"], status["code"]) == (
            "Failure",
            "InternalError",
            500,
        )
        assert 'exec: "nope": executable file not found in $PATH' in status["message"]
        assert "error executing command in container" in status["message"]
        assert all(cause.get("reason") != "ExitCode" for cause in status["details"]["causes"])

    run(scenario)


def test_a_container_that_does_not_run_is_said_on_the_error_channel(run: Any) -> None:
    async def scenario(api: Any) -> None:
        await api.running_pod("p")
        waiting = [{"name": "main", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]
        await api.patch(f"{PODS}/p/status", {"status": {"containerStatuses": waiting}})
        status = (await execute(api, ["echo"])).status
        assert 'unable to upgrade connection: container not found ("main")' in status["message"]

    run(scenario)


@pytest.mark.parametrize(
    ("path", "code", "words"),
    [
        ("none/exec?" + query(["x"]), 404, 'pods "none" not found'),
        (
            "p/exec?" + query(["x"], container="ghost"),
            400,
            "container ghost is not valid for pod p",
        ),
        (
            "two/exec?" + query(["x"]),
            400,
            "a container name must be specified for pod two, choose one of: [main side]",
        ),
        ("unscheduled/exec?" + query(["x"]), 400, "pod unscheduled does not have a host assigned"),
        ("p/exec?stdout=1", 400, "command: Required value"),
        ("p/exec?command=x", 400, "you must specify at least 1 of stdin, stdout, stderr"),
    ],
)
def test_what_cannot_work_is_refused_before_the_upgrade(
    run: Any, path: str, code: int, words: str
) -> None:
    async def scenario(api: Any) -> None:
        await api.running_pod("p")
        await api.running_pod(
            "two", containers=[{"name": "main", "image": "i"}, {"name": "side", "image": "i"}]
        )
        await api.create(PODS, a_pod("unscheduled"))
        for headers in ({"Upgrade": "SPDY/3.1", "Connection": "Upgrade"}, {"Upgrade": "websocket"}):
            answer = await api.call("POST", f"{PODS}/{path}", headers=headers)
            assert (answer.code, words in answer.body["message"]) == (code, True), answer.body

    run(scenario)


def test_spdy_and_old_subprotocols_get_one_clear_400(run: Any) -> None:
    async def scenario(api: Any) -> None:
        await api.running_pod("p")
        path = f"{PODS}/p/exec?{query(['echo'])}"
        spdy = await api.call(
            "POST", path, headers={"Upgrade": "SPDY/3.1", "Connection": "Upgrade"}
        )
        assert (spdy.code, "not emulated: exec over SPDY" in spdy.body["message"]) == (400, True)
        old = {
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Protocol": "channel.k8s.io",
        }
        refused = await api.call("GET", path, headers=old)
        assert (refused.code, "offer one of v5.channel.k8s.io" in refused.body["message"]) == (
            400,
            True,
        )
        plain = await api.call("GET", path)
        assert (plain.code, plain.body["message"]) == (400, "Upgrade request required")

    run(scenario)


def test_a_client_that_leaves_ends_the_command(run: Any) -> None:
    async def scenario(api: Any) -> None:
        await api.running_pod("p")
        url = f"{api.server.url}{PODS}/p/exec?{query(['sleep'])}"
        headers = {"Authorization": "Bearer admin-token"}
        ws = await api.session.ws_connect(url, protocols=[V5], headers=headers, ssl=api.tls)
        await asyncio.sleep(0.05)
        assert not api.agent.cancelled.is_set()
        await ws.close()
        async with asyncio.timeout(5):
            while not api.agent.cancelled.is_set():  # noqa: ASYNC110 (it happens on the other side of HTTPS)
                await asyncio.sleep(0.01)

    run(scenario)


def test_a_node_without_an_agent_is_named(run: Any) -> None:
    async def scenario(api: Any) -> None:
        await api.running_pod("p")
        status = (await execute(api, ["echo"])).status
        assert 'the kubelet of node "n1" does not answer' in status["message"]

    run(scenario, agent_of=lambda node: None)


@pytest.mark.parametrize(
    ("fault", "out", "status"),
    [
        ("empty-output", b"", "Success"),
        ("half-output", b"abc", "Success"),
        ("lost-status", b"abcdef", None),
    ],
)
def test_exec_faults_bend_the_answer_and_nothing_else(
    run: Any, fault: str, out: bytes, status: str | None
) -> None:
    async def scenario(api: Any) -> None:
        await api.running_pod("p")
        api.server.interference.execs.put("f", ExecFault(kind=fault))
        ran = await execute(api, ["echo", "abcdef"])
        assert (ran.out, ran.status and ran.status["status"], ran.code) == (out, status, 1000)
        api.server.interference.execs.heal("f")
        assert (await execute(api, ["echo", "abcdef"])).out == b"abcdef"

    run(scenario)


def test_a_cut_exec_ends_without_a_close(run: Any) -> None:
    async def scenario(api: Any) -> None:
        await api.running_pod("p")
        api.server.interference.execs.put("f", ExecFault(kind="cut"))
        ran = await execute(api, ["echo", "abcdef"])
        assert (ran.out, ran.status, ran.code == 1000) == (b"", None, False)

    run(scenario)


def test_a_hanging_exec_gives_nothing(run: Any) -> None:
    async def scenario(api: Any) -> None:
        await api.running_pod("p")
        api.server.interference.execs.put("f", ExecFault(kind="hang"))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await execute(api, ["echo"])

    run(scenario)


def test_what_hung_goes_on_when_it_is_healed(run: Any) -> None:
    async def scenario(api: Any) -> None:
        await api.running_pod("p")
        api.server.interference.execs.put("f", ExecFault(kind="hang"))
        asyncio.get_running_loop().call_later(0.05, api.server.interference.execs.heal, "f")
        assert (await execute(api, ["echo", "late"])).out == b"late"

    run(scenario)


def test_a_program_that_is_not_there_and_one_that_is_another(run: Any) -> None:
    async def scenario(api: Any) -> None:
        await api.running_pod("p")
        execs = api.server.interference.execs
        execs.put(
            "f",
            ExecFault(
                kind="missing-binary", start_error=lambda pod, container, argv: f"no {argv[0]}"
            ),
        )
        assert "no echo" in (await execute(api, ["echo", "x"])).status["message"]
        execs.heal("f")
        execs.put("f", ExecFault(kind="wrong-binary", argv=("echo", "another")))
        assert (await execute(api, ["fail", "3"])).out == b"another"

    run(scenario)


def test_a_killed_command_says_so_by_its_status(run: Any) -> None:
    async def scenario(api: Any) -> None:
        await api.running_pod("p")
        api.server.interference.execs.put("f", ExecFault(kind="killed"))
        ran = await execute(api, ["sleep"])
        assert ran.status["details"]["causes"] == [{"reason": "ExitCode", "message": "137"}]
        assert api.agent.cancelled.is_set()
        fed = await execute(api, ["cat"], stdin=b"abcdef", close=False)
        assert fed.status["details"]["causes"] == [{"reason": "ExitCode", "message": "137"}]

    run(scenario)


@pytest.mark.parametrize(
    ("kind", "second"),
    [("empty-output", b""), ("half-output", b"sec"), ("cut", None), ("hang", None)],
)
def test_a_command_that_runs_already_is_caught_at_its_next_output(
    run: Any, kind: str, second: bytes | None
) -> None:
    async def scenario(api: Any) -> None:
        await api.running_pod("p")
        url = f"{api.server.url}{PODS}/p/exec?{query(['cat'], stdin='1')}"
        headers = {"Authorization": "Bearer admin-token"}
        async with api.session.ws_connect(url, protocols=[V5], headers=headers, ssl=api.tls) as ws:
            await ws.send_bytes(b"\x00first")
            assert (await ws.receive(timeout=5)).data == b"\x01first"
            api.server.interference.execs.put("f", ExecFault(kind=kind))
            await ws.send_bytes(b"\x00second")
            if kind == "hang":
                with pytest.raises(TimeoutError):
                    await ws.receive(timeout=0.1)
                api.server.interference.execs.heal("f")
                assert (await ws.receive(timeout=5)).data == b"\x01second"
            elif kind == "cut":
                assert (await ws.receive(timeout=5)).type in {
                    aiohttp.WSMsgType.CLOSED,
                    aiohttp.WSMsgType.ERROR,
                }
            else:
                await ws.send_bytes(b"\xff\x00")
                messages = [message.data async for message in ws]
                assert b"".join(data[1:] for data in messages if data[0] == 1) == second

    run(scenario)


def test_exec_also_wants_create_from_version_1_35_on(run: Any) -> None:
    rbac = "/apis/rbac.authorization.k8s.io/v1"

    async def scenario(api: Any) -> None:
        rules = [{"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["get"]}]
        await api.create(f"{rbac}/clusterroles", {"metadata": {"name": "e"}, "rules": rules})
        subject = {"kind": "User", "name": "alice"}
        bound = {
            "metadata": {"name": "e"},
            "roleRef": {"kind": "ClusterRole", "name": "e"},
            "subjects": [subject],
        }
        await api.create(f"{rbac}/clusterrolebindings", bound)
        await api.running_pod("p")
        answer = await api.call("GET", f"{PODS}/p/exec?{query(['x'])}", token="alice-token")
        old = api.server.core.settings.kubernetes_version == "v1.34.1"
        assert answer.code == (400 if old else 403)

    run(scenario)
    run(scenario, kubernetes_version="v1.35.0")


def test_a_plain_websocket_client_gets_the_exit_status(threaded: Any) -> None:
    threaded.call(threaded.api.running_pod("p"))
    url = f"{threaded.url.replace('https', 'wss')}{PODS}/p/exec?{query(['fail', '3'])}"
    connection = websocket.create_connection(
        url,
        header=["Authorization: Bearer admin-token"],
        subprotocols=[V5, V4],
        sslopt={"ca_certs": str(threaded.ca_file), "cert_reqs": ssl.CERT_REQUIRED},
        timeout=5,
    )
    frame = connection.recv()
    connection.close()
    assert connection.getsubprotocol() == V5
    assert frame[0] == 3
    assert json.loads(frame[1:])["details"]["causes"][0]["message"] == "3"


def test_the_answers_of_aiohttp_and_the_handshake_agree(run: Any) -> None:
    async def scenario(api: Any) -> None:
        await api.running_pod("p")
        with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
            await execute(api, ["x"], container="ghost")
        assert caught.value.status == 400

    run(scenario)
