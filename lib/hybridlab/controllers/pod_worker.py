# SPDX-License-Identifier: Apache-2.0
"""A pod on its node, from admission to the last container's end: sandbox, volumes, containers,
status, removal."""

import asyncio
import contextlib
import logging
from collections.abc import Coroutine
from typing import Any

from hybridlab.api.contract import ApiError, Obj
from hybridlab.controllers import pod_status
from hybridlab.controllers.container_runner import BackOff, ContainerRunner, host_process
from hybridlab.controllers.container_state import ContainerState
from hybridlab.controllers.environment import PodFields
from hybridlab.controllers.node_context import NodeContext
from hybridlab.controllers.pod_status import PodState
from hybridlab.controllers.times import timestamp
from hybridlab.controllers.volumes import MountError, Volume, load, mounts
from hybridlab.dataplane.contract import DataplaneError
from hybridlab.dataplane.model import PodSpec
from hybridlab.dataplane.pod_network import SandboxError
from hybridlab.profiles.machines import etc_hosts, resolver
from hybridlab.runtime.contract import RuntimeRefused

logger = logging.getLogger(__name__)

STATUS_RETRY = 0.05
"""The pause, in seconds, before a refused status write is tried again."""


class PodWorker:
    """Everything that the kubelet does for one pod."""

    def __init__(self, context: NodeContext, pod: Obj) -> None:
        self.pod = pod
        self._context = context
        spec = pod["spec"]
        self.state = PodState(
            start_time=timestamp(),
            host_address=context.machine.address,
            init=[
                ContainerState(each, waiting=("PodInitializing", ""))
                for each in spec.get("initContainers") or ()
            ],
            containers=[ContainerState(each) for each in spec["containers"]],
        )
        if self.state.init:
            for each in self.state.containers:
                each.waiting = ("PodInitializing", "")
        self.runners: dict[str, ContainerRunner] = {}
        """The runners by container name; a container gets its runner when its turn comes."""
        self._volumes: dict[str, Volume] = {}
        self._dirty = asyncio.Event()
        self._clean = asyncio.Event()
        self._clean.set()
        self._written: Obj | None = None
        self._sources_changed = asyncio.Event()
        self._terminating = asyncio.Event()
        self._grace: float | None = None
        self._gone = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._main: asyncio.Task[None] | None = None
        self._writer: asyncio.Task[None] | None = None
        self._wired = False

    def start(self) -> None:
        self._main = asyncio.create_task(self._run(), name=f"pod {self._name}")

    def update(self, pod: Obj) -> None:
        meta = pod["metadata"]
        if int(meta["resourceVersion"]) > int(self.pod["metadata"]["resourceVersion"]):
            self.pod = pod
            # other clients write the conditions of readiness gates
            if pod["spec"].get("readinessGates"):
                self._changed()
        if "deletionTimestamp" in meta:
            self.terminate(float(meta.get("deletionGracePeriodSeconds") or 0))

    def deleted(self) -> None:
        """End at once and write nothing, because the pod object is gone. Do nothing if this kubelet
        deleted it."""
        if self._gone:
            return
        self._gone = True
        self.terminate(0.0)

    def terminate(self, grace: float) -> None:
        """End the pod within ``grace`` seconds; a later call can only shorten this time."""
        if self._grace is None or grace < self._grace:
            self._grace = grace
            if self._terminating.is_set():
                self._spawn(self._stop_containers())
            self._terminating.set()

    def sources_changed(self, kind: str, name: str) -> None:
        """Handle a ConfigMap or Secret of the pod's namespace that has changed."""
        if _mentions(self.pod, kind, name):
            self._sources_changed.set()

    async def finished(self) -> None:
        """Wait until nothing of the pod is left on the node."""
        if self._main:
            await asyncio.gather(self._main, return_exceptions=True)

    async def cancel(self) -> None:
        """Stop all tasks; containers in labd stay (they end with the lab)."""
        tasks = [task for task in (self._main, self._writer, *self._tasks) if task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for runner in self.runners.values():
            runner.stop_probing()

    @property
    def _name(self) -> str:
        meta = self.pod["metadata"]
        return f"{meta['namespace']}/{meta['name']}"

    def facts(self) -> PodFields:
        """Return the facts for the pod's environment and volumes."""
        return PodFields(
            pod=self.pod, addresses=self.state.addresses, host_address=self.state.host_address
        )

    async def _run(self) -> None:
        self._writer = asyncio.create_task(self._write_status(), name=f"status of {self._name}")
        try:
            if self.state.rejected is None:
                await self._until_terminating(self._live())
            else:
                self._changed()
                await self._flush()
            if self.state.rejected is None or self._terminating.is_set():
                await self._end()
        except Exception:  # a pod's failure must not end the other pods of its node
            logger.exception("pod %s on %s", self._name, self._context.machine.name)
        finally:
            self._writer.cancel()

    async def _until_terminating(self, work: Coroutine[Any, Any, None]) -> None:
        """Run ``work`` to its end, or cancel it once the pod must terminate."""
        task = asyncio.create_task(work, name=f"life of {self._name}")
        ending = asyncio.create_task(self._terminating.wait())
        try:
            await asyncio.wait({task, ending}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                task.result()
        finally:
            ending.cancel()
            task.cancel()
            await asyncio.gather(task, ending, return_exceptions=True)

    async def _live(self) -> None:
        await self._sandbox()
        self._refuse_host_ports()
        await self._mount()
        if self._context.profile.timing.pod_start_ms:
            await asyncio.sleep(self._context.profile.timing.pod_start_ms / 1000)
        self._spawn(self._sync_volumes())
        policy = self.pod["spec"].get("restartPolicy", "Always")
        if not await self._init_containers("OnFailure" if policy == "Always" else policy):
            return
        for each in self.state.containers:
            if each.waiting == ("PodInitializing", ""):
                each.waiting = ("ContainerCreating", "")
        await asyncio.gather(*[self._runner(state).run(policy) for state in self.state.containers])

    async def _init_containers(self, policy: str) -> bool:
        for state in self.state.init:
            runner = self._runner(state, init=True)
            if state.spec.get("restartPolicy") == "Always":
                self._spawn(runner.run("Always"))
                await runner.up.wait()
            else:
                await runner.run(policy)
                if not state.succeeded:
                    return False
                state.ready = True
                self._changed()
        return True

    def _runner(self, state: ContainerState, *, init: bool = False) -> ContainerRunner:
        runner = ContainerRunner(
            self._context,
            state,
            facts=self.facts,
            volumes=lambda: self._volumes,
            changed=self._changed,
            init=init,
        )
        self.runners[state.name] = runner
        return runner

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _sandbox(self) -> None:
        back_off = BackOff(
            self._context.settings.sandbox_retry, self._context.settings.back_off_last
        )
        back_off.wait()
        while True:
            try:
                await self._wire()
                break
            except (SandboxError, DataplaneError) as error:
                meta = self.pod["metadata"]
                self._context.event(
                    self.pod,
                    "FailedCreatePodSandBox",
                    "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for "
                    f'sandbox "{meta["uid"].replace("-", "")}": {error}',
                    type="Warning",
                )
                self._changed()
                await asyncio.sleep(back_off.wait())
        self.state.sandbox = True
        if self.state.init or self._slow_to_start():
            self._changed()

    def _refuse_host_ports(self) -> None:
        """Report each hostPort that nothing maps: Calico's CNI configuration for Windows has no
        portMappings."""
        os = self._context.machine.os
        for port in (
            port for each in self.pod["spec"]["containers"] for port in each.get("ports") or ()
        ):
            unmapped = os == "windows" or port.get("protocol") == "SCTP"
            if port.get("hostPort") and unmapped and not uses_host(self.pod, os):
                why = f"not emulated: hostPort {port['hostPort']} {'on Windows' if os == 'windows' else 'for SCTP'}"
                self._context.event(
                    self.pod, "NotEmulated", f"{why}; nothing listens on this port", type="Warning"
                )

    def _slow_to_start(self) -> bool:
        """Return whether the containers may start late. The status then reports the pod's network
        before they start."""
        timing = self._context.profile.timing
        stalled = self._context.faults.stalled("pulls", self._context.machine.name)
        return bool(
            stalled
            or timing.image_pull_ms
            or timing.pod_start_ms
            or self.pod["spec"].get("volumes")
        )

    async def _wire(self) -> None:
        meta = self.pod["metadata"]
        node = self._context.machine
        self._wired = True  # from here on, _unwire may have something to undo
        wiring = resolver(self._context.profile, self.pod)
        if wiring.left_out:
            self._context.event(
                self.pod,
                "DNSConfigForming",
                "Nameserver limits were exceeded, some nameservers have been omitted, "
                f"the applied nameserver line is: {' '.join(wiring.nameservers)}",
                type="Warning",
            )
        if uses_host(self.pod, node.os):
            await self._context.dataplane.add_pod(
                PodSpec(
                    id=meta["uid"],
                    node=node.name,
                    name=meta["name"],
                    namespace=meta["namespace"],
                    address=None,
                    hostname=node.name,
                    nameservers=wiring.nameservers,
                    searches=wiring.searches,
                    resolver_options=wiring.options,
                    etc_hosts=etc_hosts(self._context.profile, self.pod, node.address, node.name),
                )
            )
            self.state.addresses = (node.address,)
        else:
            attachment = await self._context.network.attach(self.pod, node.name)
            self.state.addresses = (attachment.address,)
            self.state.annotations = attachment.annotations

    async def _unwire(self) -> None:
        if not self._wired:
            return
        self._wired = False
        uid = self.pod["metadata"]["uid"]
        if uses_host(self.pod, self._context.machine.os):
            with contextlib.suppress(DataplaneError):  # the pod may end before its sandbox exists
                await self._context.dataplane.remove_pod(uid)
        else:
            await self._context.network.detach(uid)

    async def _mount(self) -> None:
        context = self._context
        while True:
            self._sources_changed.clear()
            try:
                self._volumes = await load(self.facts(), context.sources, context.issue_token)
                return
            except MountError as error:
                context.event(self.pod, "FailedMount", str(error), type="Warning")
                self._changed()
            try:
                await asyncio.wait_for(self._sources_changed.wait(), context.settings.mount_retry)
            except TimeoutError:
                continue

    async def _sync_volumes(self) -> None:
        """Copy changed ConfigMaps and Secrets to the running containers."""
        while not self._terminating.is_set():
            await self._sources_changed.wait()
            self._sources_changed.clear()
            context = self._context
            try:
                self._volumes = await load(self.facts(), context.sources, context.issue_token)
            except MountError as error:
                context.event(self.pod, "FailedMount", str(error), type="Warning")
                continue
            for name, runner in list(self.runners.items()):
                if runner.state.running_since is None:
                    continue
                # a subPath mount keeps its files from the container's start
                spec = {
                    "volumeMounts": [
                        m
                        for m in runner.state.spec.get("volumeMounts") or ()
                        if not m.get("subPath")
                    ]
                }
                files = mounts(spec, self._volumes, context.machine.os).files
                try:
                    await context.runtime.update_files(runner.state.id, files)
                except RuntimeRefused as error:
                    logger.debug(
                        "files of %s in %s could not be updated: %s", name, self._name, error
                    )

    async def _stop_containers(self) -> None:
        await asyncio.gather(*(runner.stop(self._grace or 0.0) for runner in self.runners.values()))

    async def _end(self) -> None:
        if not self._terminating.is_set():
            await self._after_last_container()
        if self._terminating.is_set():
            await self._stop_containers()
            await asyncio.gather(*(runner.forget() for runner in self.runners.values()))
        await self._unwire()
        for task in list(self._tasks):
            task.cancel()
        if self._terminating.is_set() and not self._gone:
            await self._delete()

    async def _after_last_container(self) -> None:
        """After the last container has ended, keep the logs until the pod is deleted, but not the
        network.
        """
        await self._flush()
        await self._unwire()
        await self._terminating.wait()

    async def _delete(self) -> None:
        meta = self.pod["metadata"]
        self._gone = True
        try:
            await self._context.client.delete(
                "pods", meta["name"], meta["namespace"], grace_period_seconds=0, uid=meta["uid"]
            )
        except ApiError as error:
            if error.code not in {404, 409}:
                raise

    def _changed(self) -> None:
        self._dirty.set()
        self._clean.clear()

    async def _flush(self) -> None:
        """Wait until the pod's status in the API equals its state here."""
        await self._clean.wait()

    async def _write_status(self) -> None:
        while True:
            await self._dirty.wait()
            await asyncio.sleep(0)  # changes of the same moment are written once
            self._dirty.clear()
            # while the pod ends, its status is written only as long as all its containers run
            serves = not self._gone and all(
                state.running_since is not None for state in self.state.containers
            )
            if (serves or not self._terminating.is_set()) and not await self._write_once():
                await asyncio.sleep(STATUS_RETRY)
                self._dirty.set()
            if not self._dirty.is_set():
                self._clean.set()

    async def _write_once(self) -> bool:
        """Write the status if it is new; return False if the write must be tried again."""
        wanted = pod_status.status(self.pod, self.state, timestamp())
        if wanted == self._written:
            return True
        meta = self.pod["metadata"]
        patch: Obj = {"metadata": {"uid": meta["uid"]}, "status": wanted}
        if self.state.annotations:
            patch["metadata"]["annotations"] = self.state.annotations
        try:
            self.pod = await self._context.client.patch(
                "pods", meta["name"], patch, meta["namespace"], subresource="status"
            )
        except ApiError as error:
            if error.code in {
                404,
                409,
            }:  # the pod is gone, or another pod has its name: its event follows
                return True
            logger.warning("status of %s could not be written, trying again: %s", self._name, error)
            return False
        self._written = wanted
        return True


def uses_host(pod: Obj, os: str) -> bool:
    """Return whether a pod has its node's network: by hostNetwork on Linux, and on Windows only by
    HostProcess."""
    if os == "linux":
        return bool(pod["spec"].get("hostNetwork"))
    return host_process(pod, pod["spec"]["containers"][0])


def _mentions(pod: Obj, kind: str, name: str) -> bool:
    """Return whether a volume of the pod uses this ConfigMap or Secret."""
    for volume in pod["spec"].get("volumes") or ():
        for source in (volume, *((volume.get("projected") or {}).get("sources") or ())):
            found = source.get(kind)
            if found and name in {found.get("name"), found.get("secretName")}:
                return True
    return False
