# SPDX-License-Identifier: Apache-2.0
"""The kubelet of a node: admits the pods bound to it, runs them, and answers exec and logs for the
API server."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime

from hybridlab.api.contract import ApiError, ExecOutcome, Obj, StreamCut, Streams
from hybridlab.controllers.container_runner import host_process
from hybridlab.controllers.container_state import ContainerState
from hybridlab.controllers.exec_streams import Pipe, pump_in, pump_out
from hybridlab.controllers.fit import PodNeeds, matches_node
from hybridlab.controllers.node_context import NodeContext
from hybridlab.controllers.pod_worker import PodWorker
from hybridlab.runtime.contract import RuntimeRefused
from hybridlab.runtime.model import ContainerExit, ExecSpec

FINISHED = ("Succeeded", "Failed")
NO_HOST_PROCESS = re.compile(r"docker://|containerd://1\.[0-5]\.")
"""Container runtimes without HostProcess containers."""


class Kubelet:
    """A node's agent (implements :class:`hybridlab.api.contract.NodeAgent`)."""

    def __init__(self, context: NodeContext, node: Callable[[], Obj | None]) -> None:
        """Set up the kubelet. ``node`` returns the present Node object."""
        self.context = context
        self._node = node
        self._workers: dict[str, PodWorker] = {}
        self._unnoticed: dict[str, Obj] = {}
        """The present pods of the node that a fault hides from the kubelet."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._execs: set[asyncio.Task[ExecOutcome]] = set()

    def on_pod(self, pod: Obj | None, before: Obj | None) -> None:
        """Handle a pod of this node that is new, changed or deleted."""
        found = pod or before
        if found is None:
            return
        uid = found["metadata"]["uid"]
        worker = self._workers.get(uid)
        if pod is None:
            self._unnoticed.pop(uid, None)
            if worker:
                worker.deleted()
                self._release(uid, worker)
        elif worker:
            worker.update(pod)
        elif uid in self._unnoticed:
            self._unnoticed[uid] = pod
        elif pod.get("status", {}).get("phase") not in FINISHED:
            if self.context.faults.stalled("pods", self.context.machine.name):
                self._unnoticed[uid] = pod
                task = asyncio.create_task(self._notice(uid))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            else:
                self._admit(uid, pod)

    async def _notice(self, uid: str) -> None:
        """Admit a pod as soon as no fault hides it from the kubelet."""
        await self.context.faults.passes("pods", self.context.machine.name)
        pod = self._unnoticed.pop(uid, None)
        if pod is not None:
            self._admit(uid, pod)

    def on_exit(self, ended: ContainerExit) -> bool:
        """Record that a container ended; return False if no pod of this node waits for it."""
        waiting = self.context.exits.get(ended.container)
        if waiting is None:
            return False
        if not waiting.done():
            waiting.set_result(ended)
        return True

    def sources_changed(self, kind: str, namespace: str, name: str) -> None:
        """Handle a changed ConfigMap (``configMap``) or Secret (``secret``)."""
        for worker in self._workers.values():
            if worker.pod["metadata"]["namespace"] == namespace:
                worker.sources_changed(kind, name)

    async def stop(self) -> None:
        """End all tasks (the containers end with the lab)."""
        await asyncio.gather(*(worker.cancel() for worker in self._workers.values()))
        for task in list(self._tasks):
            task.cancel()

    def _admit(self, uid: str, pod: Obj) -> None:
        worker = self._workers[uid] = PodWorker(self.context, pod)
        if "deletionTimestamp" in pod["metadata"]:
            worker.update(pod)
        else:
            # a node rejects a pod that it cannot take, whoever bound the pod to the node
            worker.state.rejected = (
                self._mismatch(pod) or self._no_host_process(pod) or self._lack_of_room(pod)
            )
        if worker.state.rejected:
            reason, message = worker.state.rejected
            self.context.event(pod, reason, message, type="Warning")
        worker.start()

    def _mismatch(self, pod: Obj) -> tuple[str, str] | None:
        spec = pod["spec"]
        own = self.context.machine.os
        if (spec.get("os") or {}).get("name") not in {None, "", own}:
            return "PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS"
        if (spec.get("nodeSelector") or {}).get("kubernetes.io/os") not in {None, "", own}:
            return (
                "PodOSSelectorNodeLabelDoesNotMatch",
                "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label",
            )
        node = self._node()
        if node and not matches_node(pod, node):
            return (
                "NodeAffinity",
                "Pod was rejected: Predicate NodeAffinity failed: "
                "node(s) didn't match Pod's node affinity/selector",
            )
        return None

    def _no_host_process(self, pod: Obj) -> tuple[str, str] | None:
        """Refuse HostProcess containers if the runtime has none (kubernetes.io:
        create-hostprocess-pod), unless Calico or kube-proxy runs in such containers.

        On real nodes, the error depends on the version, but in the end the program is not found on
        the host.
        """
        profile = self.context.profile
        runtime = self.context.machine.group.container_runtime
        in_pods = (
            profile.calico.install in {"operator", "manifest"} or not profile.kube_proxy.on_host
        )
        containers = pod["spec"]["containers"]
        if (
            in_pods
            or not any(host_process(pod, container) for container in containers)
            or (not NO_HOST_PROCESS.match(runtime))
        ):
            return None
        return "HostProcess", f"not emulated: HostProcess containers with {runtime}"

    def _lack_of_room(self, pod: Obj) -> tuple[str, str] | None:
        running = [worker for worker in self._workers.values() if worker.state.rejected is None]
        limit = self.context.machine.group.max_pods
        if len(running) > limit:
            return (
                "OutOfpods",
                "Pod was rejected: Node didn't have enough resource: pods, "
                f"requested: 1, used: {len(running) - 1}, capacity: {limit}",
            )
        taken = {
            port
            for worker in running
            if worker.pod is not pod
            for port in PodNeeds.of(worker.pod).host_ports
        }
        if taken and taken.intersection(PodNeeds.of(pod).host_ports):
            return (
                "NodePorts",
                "Pod was rejected: Predicate NodePorts failed: "
                "node(s) didn't have free ports for the requested pod ports",
            )
        return None

    def _release(self, uid: str, worker: PodWorker) -> None:
        async def forget() -> None:
            await worker.finished()
            self._workers.pop(uid, None)

        task = asyncio.create_task(forget())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _state(self, pod: Obj, container: str) -> ContainerState | None:
        worker = self._workers.get(pod["metadata"]["uid"])
        if worker is None:
            return None
        states = (*worker.state.containers, *worker.state.init)
        return next((state for state in states if state.name == container), None)

    def container_id(self, pod: Obj, container: str) -> str:
        """Return the runtime's id of a container's newest run; return an empty string if the
        container never ran."""
        state = self._state(pod, container)
        return state.id if state else ""

    def environment(self, pod: Obj, container: str) -> dict[str, str]:
        """Return the environment with which a container (or init container) was last started;
        return an empty mapping if it has never started."""
        state = self._state(pod, container)
        return dict(state.environment) if state else {}

    async def exec(
        self, pod: Obj, container: str, argv: tuple[str, ...], streams: Streams
    ) -> ExecOutcome:
        """Run a command in a running container. Raise ApiError if the container does not exist or
        does not run, as a kubelet refuses the connection; raise StreamCut if :meth:`cut_streams`
        ends the command."""
        work = asyncio.create_task(self._exec(pod, container, argv, streams))
        self._execs.add(work)
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            if work.cancelled():
                raise StreamCut(
                    f"the connection to node {self.context.machine.name} broke"
                ) from None
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            raise
        finally:
            self._execs.discard(work)

    def cut_streams(self) -> None:
        """Break the node's network for a moment: every running exec is cut off and its command
        killed."""
        for work in self._execs:
            work.cancel()

    async def _exec(
        self, pod: Obj, container: str, argv: tuple[str, ...], streams: Streams
    ) -> ExecOutcome:
        machine = self.context.machine
        if self.context.faults.stalled("dead", machine.name):
            where = f"{machine.address}:10250"
            raise ApiError(
                500,
                "InternalError",
                f"error dialing backend: dial tcp {where}: connect: no route to host",
            )
        state = self._state(pod, container)
        if state is None or state.running_since is None:
            message = f'unable to upgrade connection: container not found ("{container}")'
            raise ApiError(500, "InternalError", message)
        cost = self.context.profile.timing.exec_cost_ms
        if cost:
            await asyncio.sleep(cost / 1000)
        stdin = streams.stdin
        pipes = [Pipe(outwards=True), Pipe(outwards=True)]
        if stdin is not None:
            pipes.append(Pipe(outwards=False))
        feed: asyncio.Task[None] | None = None
        pumps: list[asyncio.Task[None]] = []
        try:
            pumps = [
                asyncio.create_task(pump_out(pipe, out))
                for pipe, out in zip(pipes, (streams.stdout, streams.stderr), strict=False)
            ]
            outputs = asyncio.gather(*pumps)
            if stdin is not None:
                feed = asyncio.create_task(pump_in(stdin, pipes[2]))
            spec = ExecSpec(container=state.id, argv=argv, tty=streams.tty)
            running = asyncio.ensure_future(
                self.context.runtime.exec(
                    spec,
                    stdin=pipes[2].far if stdin is not None else None,
                    stdout=pipes[0].far,
                    stderr=pipes[1].far,
                )
            )
            try:
                await asyncio.sleep(
                    0
                )  # the runtime has copies now; these would be half of this process' descriptors
                for pipe in pipes:
                    pipe.close_far()
                result = await running
            except RuntimeRefused as error:
                return ExecOutcome(exit_code=None, start_error=str(error))
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
                await _settled(outputs)
        finally:  # a pump that outlives its pipe would read another pipe with the same number
            left = [*pumps, feed] if feed else pumps
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)
            for pipe in pipes:
                pipe.close()
        return ExecOutcome(exit_code=result.exit_code, start_error=result.start_error)

    async def logs(
        self,
        pod: Obj,
        container: str,
        *,
        follow: bool,
        previous: bool,
        tail_lines: int | None,
        since_seconds: int | None,
        timestamps: bool,
        limit_bytes: int | None,
    ) -> AsyncIterator[bytes]:
        """Yield the lines of a container's log. Raise ApiError 400 in the kubelet's wording if
        there is no log."""
        log = self._log_of(pod, container, previous=previous)
        skip = 0
        if tail_lines is not None:
            count = 0
            async for _ in self.context.runtime.logs(log, follow=False):
                count += 1
            skip = max(count - tail_lines, 0)
        oldest = time.time() - since_seconds if since_seconds is not None else 0.0
        left = limit_bytes
        async for moment, line in self.context.runtime.logs(log, follow=follow and not previous):
            if skip:
                skip -= 1
                continue
            if moment < oldest:
                continue
            text = _stamp(moment) + line if timestamps else line
            if left is not None:
                text = text[:left]
                left -= len(text)
            yield text
            if left == 0:
                return

    def _log_of(self, pod: Obj, container: str, *, previous: bool) -> str:
        state = self._state(pod, container)
        name = pod["metadata"]["name"]
        if state is None:
            raise ApiError(
                400, "BadRequest", f'container "{container}" in pod "{name}" is not available'
            )
        if previous:
            if not state.previous_id and not (
                state.ended is None and state.last and state.running_since is None
            ):
                raise ApiError(
                    400,
                    "BadRequest",
                    f'previous terminated container "{container}" in pod "{name}" not found',
                )
            return state.previous_id or state.id
        if not state.id:
            reason = state.waiting[0] if state.waiting else "ContainerCreating"
            if reason in {"ErrImagePull", "ImagePullBackOff"}:
                reason = "trying and failing to pull image"
            raise ApiError(
                400,
                "BadRequest",
                f'container "{container}" in pod "{name}" is waiting to start: {reason}',
            )
        return state.id


async def _settled(outputs: asyncio.Future[list[None]]) -> None:
    """Wait for the last output. If this task was cancelled, do not wait, since the command may
    never end."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        outputs.cancel()
        await asyncio.gather(outputs, return_exceptions=True)
    else:
        await outputs


def _stamp(moment: float) -> bytes:
    return f"{datetime.fromtimestamp(moment, UTC).strftime('%Y-%m-%dT%H:%M:%S.%f')}000Z ".encode()
