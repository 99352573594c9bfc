# SPDX-License-Identifier: Apache-2.0
"""``kubectl logs``: which container is meant, whether it has a log, and the bytes of the log."""

from collections.abc import Mapping
from datetime import UTC, datetime

from hybridlab.api.contract import NodeAgent, Obj
from hybridlab.api.errors import bad_request, forbidden_field, internal, invalid, invalid_value
from hybridlab.api.http.aio import web
from hybridlab.api.http.bodies import flag
from hybridlab.api.http.execs import choose_container
from hybridlab.api.http.replies import STREAMING


def _number(query: Mapping[str, str], name: str, pod: str, *, least: int) -> int | None:
    text = query.get(name)
    if not text:
        return None
    try:
        value = int(text)
    except ValueError:
        raise bad_request(f'{name}: Invalid value: "{text}": must be a number') from None
    if value < least:
        cause = invalid_value(name, value, f"must be greater than or equal to {least}")
        raise invalid("PodLogOptions", "", pod, [cause])
    return value


def _since(query: Mapping[str, str], pod: str) -> int | None:
    seconds = _number(query, "sinceSeconds", pod, least=1)
    text = query.get("sinceTime")
    if text:
        if seconds is not None:
            cause = forbidden_field(
                "[]", "at most one of `sinceTime` or `sinceSeconds` may be specified"
            )
            raise invalid("PodLogOptions", "", pod, [cause])
        try:
            then = datetime.fromisoformat(text)
        except ValueError:
            raise bad_request(
                f'sinceTime: Invalid value: "{text}": must be a time in RFC 3339 form'
            ) from None
        return max(1, int((datetime.now(UTC) - then).total_seconds()))
    return seconds


def _check_started(pod: Obj, container: str, *, previous: bool) -> None:
    """Raise ApiError 400 if a container has not started yet; with ``previous``, if it has no
    earlier run."""
    what = f'container "{container}" in pod "{pod["metadata"]["name"]}"'
    found = _container_status(pod, container)
    if (found.get("lastState") or {}).get("terminated") is not None:
        return
    if previous:
        raise bad_request(f"previous terminated {what} not found")
    state = found.get("state") or {}
    if not found or "waiting" in state:
        reason = (state.get("waiting") or {}).get("reason") or "ContainerCreating"
        if reason in {"ErrImagePull", "ImagePullBackOff", "InvalidImageName"}:
            reason = "trying and failing to pull image"
        raise bad_request(f"{what} is waiting to start: {reason}")


def _container_status(pod: Obj, container: str) -> Obj:
    """Return a container's entry in a pod's status; empty if there is none."""
    status = pod.get("status") or {}
    for group in ("containerStatuses", "initContainerStatuses"):
        for item in status.get(group) or ():
            if item["name"] == container:
                return dict(item)
    return {}


async def serve(request: web.BaseRequest, pod: Obj, agent: NodeAgent | None) -> web.StreamResponse:
    """Answer a request for a container's log."""
    query = request.query
    container = choose_container(pod, query.get("container", ""))
    follow = flag(query, "follow")
    previous = flag(query, "previous")
    name = pod["metadata"]["name"]
    tail = _number(query, "tailLines", name, least=0)
    since = _since(query, name)
    limit = _number(query, "limitBytes", name, least=1)
    node = pod["spec"].get("nodeName", "")
    response = web.StreamResponse(
        headers={"Content-Type": "text/plain", "Cache-Control": "no-cache, private"}
    )
    if not node:
        return web.Response(status=204)
    _check_started(pod, container, previous=previous)
    if agent is None:
        raise internal(f'error dialing backend: the kubelet of node "{node}" does not answer')
    lines = agent.logs(
        pod,
        container,
        follow=follow,
        previous=previous,
        tail_lines=tail,
        since_seconds=since,
        timestamps=flag(query, "timestamps"),
        limit_bytes=limit,
    )
    # Read the first bytes before the answer begins: if the kubelet refuses, the answer is an error
    # and no stream. Do not wait if the client follows: a followed log may be silent for long.
    first = b"" if follow else await anext(lines, b"")
    await response.prepare(request)
    request[STREAMING] = True
    if first:
        await response.write(first)
    async for data in lines:
        if data:
            await response.write(data)
    await response.write_eof()
    return response
