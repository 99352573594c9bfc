# SPDX-License-Identifier: Apache-2.0
"""``kubectl exec``: a command in a container over WebSocket, subprotocols v5 and v4 of
channel.k8s.io.

Channels: 0 stdin, 1 stdout, 2 stderr, 3 the end of the command (a Status), 4 terminal size
(ignored); in v5 a message on channel 255 closes a channel, which is how stdin ends.  SPDY is not
supported; clients that support nothing else get a message.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import orjson

from hybridlab.api.contract import ApiError, ExecOutcome, NodeAgent, Obj, StreamCut, Streams
from hybridlab.api.errors import bad_request, internal, not_found, status_of
from hybridlab.api.http.aio import WSMsgType, web

PROTOCOLS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io")
STDIN = 0
STDOUT = 1
STDERR = 2
STATUS = 3
CLOSE = 255
_STDIN_LIMIT = 1 << 20


@dataclass(frozen=True)
class ExecRequest:
    """The command to run, and its container."""

    pod: Obj
    container: str
    argv: tuple[str, ...]
    stdin: bool
    stdout: bool
    stderr: bool
    tty: bool


def choose_container(pod: Obj, asked: str) -> str:
    """Return the container that the request means. Raise ApiError 400 in the real server's wording
    if the request names an unknown container, or names none and the pod has several."""
    name = pod["metadata"]["name"]
    groups = ("containers", "initContainers", "ephemeralContainers")
    names = [item["name"] for group in groups for item in pod["spec"].get(group) or ()]
    if asked:
        if asked not in names:
            raise bad_request(f"container {asked} is not valid for pod {name}")
        return asked
    containers = [item["name"] for item in pod["spec"]["containers"]]
    default = (pod["metadata"].get("annotations") or {}).get(
        "kubectl.kubernetes.io/default-container"
    )
    if default in containers:
        return str(default)
    if len(containers) == 1:
        return str(containers[0])
    inits = [item["name"] for item in pod["spec"].get("initContainers") or ()]
    choices = f"choose one of: [{' '.join(containers)}]"
    if inits:
        choices += f" or one of the init containers: [{' '.join(inits)}]"
    raise bad_request(f"a container name must be specified for pod {name}, {choices}")


def check_upgrade(headers: Mapping[str, str]) -> None:
    """Refuse a request that is no WebSocket request with a supported subprotocol."""
    upgrade = headers.get("Upgrade", "").lower()
    if upgrade.startswith("spdy"):
        raise bad_request(
            "not emulated: exec over SPDY; use a client that speaks WebSocket with v5.channel.k8s.io or "
            "v4.channel.k8s.io (kubectl 1.31 or newer, the Kubernetes clients for Python, Java and JavaScript)"
        )
    if upgrade != "websocket":
        raise bad_request("Upgrade request required")
    offered = [item.strip() for item in headers.get("Sec-WebSocket-Protocol", "").split(",")]
    if not any(item in PROTOCOLS for item in offered):
        raise bad_request(
            f"not emulated: WebSocket subprotocols {', '.join(item for item in offered if item) or '(none)'}; "
            f"offer one of {', '.join(PROTOCOLS)}"
        )


def problem_before_start(pod: Obj, container: str) -> str | None:
    """Return why nothing can be run in a container now, in the kubelet's wording; None if a command
    can be run."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    state = next((item.get("state") or {} for item in statuses if item["name"] == container), None)
    if state is None or "running" not in state:
        return f'unable to upgrade connection: container not found ("{container}")'
    return None


class _Channel:
    """An output channel (a ChannelWriter)."""

    def __init__(self, socket: web.WebSocketResponse, number: int, *, open_: bool) -> None:
        self._socket = socket
        self._prefix = bytes([number])
        self._open = open_

    async def send(self, data: bytes) -> None:
        """Send some output; do nothing if the client did not request this channel."""
        if self._open and data and not self._socket.closed:
            await self._socket.send_bytes(self._prefix + data)


def ended(outcome: ExecOutcome) -> Obj | None:
    """Return the Status that reports a command's end; None if the end is unknown."""
    if outcome.start_error is not None:
        text = outcome.start_error
        if not text.startswith("error executing command"):
            text = f"error executing command in container: {text}"
        return _failure(f"Internal error occurred: {text}")
    if outcome.exit_code is None:
        return None
    if outcome.exit_code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: command terminated with exit code {outcome.exit_code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(outcome.exit_code)}]},
    }


def _failure(message: str) -> Obj:
    """Return the Status 500 that the real server makes from an error."""
    status = status_of(internal(message))
    status["details"] = {"causes": [{"message": message}]}
    return {key: value for key, value in status.items() if key not in {"kind", "apiVersion"}}


async def run(
    request: web.BaseRequest, asked: ExecRequest, agent: NodeAgent | None
) -> web.WebSocketResponse:
    """Serve one exec from the upgrade to the end."""
    socket = web.WebSocketResponse(protocols=PROTOCOLS, max_msg_size=0, compress=False)
    await socket.prepare(request)
    reader = asyncio.StreamReader(limit=_STDIN_LIMIT) if asked.stdin else None
    receiving = asyncio.create_task(_receive(socket, reader))
    try:
        running = asyncio.create_task(_execute(socket, asked, agent, reader))
        try:
            await asyncio.wait({receiving, running}, return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                await running
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
    except StreamCut:
        if request.transport is not None:
            request.transport.abort()
    finally:
        receiving.cancel()
        await asyncio.gather(receiving, return_exceptions=True)
    if not socket.closed:
        await socket.close()
    return socket


async def _receive(socket: web.WebSocketResponse, stdin: asyncio.StreamReader | None) -> None:
    """Read the client's messages until it disconnects."""
    half_close = socket.ws_protocol == PROTOCOLS[0]
    async for message in socket:
        if message.type is WSMsgType.TEXT:
            data = message.data.encode()
        elif message.type is WSMsgType.BINARY:
            data = message.data
        else:
            continue
        if not data or stdin is None:
            continue
        if data[0] == STDIN:
            if not stdin.at_eof():
                stdin.feed_data(data[1:])
        elif data[0] == CLOSE and half_close and data[1:2] == bytes([STDIN]):
            stdin.feed_eof()
    if stdin is not None:
        stdin.feed_eof()


async def _execute(
    socket: web.WebSocketResponse,
    asked: ExecRequest,
    agent: NodeAgent | None,
    stdin: asyncio.StreamReader | None,
) -> None:
    """Run the command and send its output and its end. Raise StreamCut if the connection must be
    cut."""
    problem = problem_before_start(asked.pod, asked.container)
    status: Obj | None
    if problem is not None:
        status = _failure(problem)
    elif agent is None:
        node = asked.pod["spec"].get("nodeName", "")
        status = _failure(f'error dialing backend: the kubelet of node "{node}" does not answer')
    else:
        stdout = _Channel(socket, STDOUT, open_=asked.stdout)
        stderr = _Channel(socket, STDERR, open_=asked.stderr and not asked.tty)
        try:
            streams = Streams(stdin=stdin, stdout=stdout, stderr=stderr, tty=asked.tty)
            status = ended(await agent.exec(asked.pod, asked.container, asked.argv, streams))
        except ApiError as error:
            status = status_of(error)
        except StreamCut:
            raise
        except Exception as error:
            asyncio.get_running_loop().call_exception_handler(
                {"message": "exec failed", "exception": error}
            )
            status = _failure(f"error executing command in container: {error}")
    if status is not None and not socket.closed:
        await socket.send_bytes(bytes([STATUS]) + orjson.dumps(status))


def pod_for_exec(pod: Obj | None, name: str) -> Obj:
    """Return the pod. Raise ApiError if the pod does not exist or is on no node yet."""
    if pod is None:
        raise not_found("pods", "", name)
    if not pod["spec"].get("nodeName"):
        raise bad_request(f"pod {name} does not have a host assigned")
    return pod
