# SPDX-License-Identifier: Apache-2.0
"""A container of a pod from its image to its end: pull, start, probe, restart with back-off,
stop."""

import asyncio
import secrets
import time
from collections.abc import Callable
from contextlib import suppress

from hybridlab.api.contract import Obj
from hybridlab.controllers.container_state import ContainerState, Ended
from hybridlab.controllers.environment import ConfigError, PodFields, command_line, environment
from hybridlab.controllers.images import PullError, check_pull, image_size
from hybridlab.controllers.node_context import NodeContext
from hybridlab.controllers.privileges import Privileges, privileges
from hybridlab.controllers.probes import Prober
from hybridlab.controllers.times import timestamp
from hybridlab.controllers.volumes import MountError, Volume, mounts
from hybridlab.controllers.windows_user import check_not_root, unknown_user, windows_option
from hybridlab.runtime.contract import RuntimeRefused
from hybridlab.runtime.model import USUAL_CAPABILITIES, ContainerExit, ContainerSpec

GRACE_PERIOD = "terminationGracePeriodSeconds"
START_ERROR = 128
"""The exit code of a container whose process never started."""

LEAST_GRACE = 2.0
"""The minimum time, in seconds, that a container has to end after its preStop hook
(minimumGracePeriodInSeconds of the kubelet)."""

KILLED = 137
"""The exit code that is assumed for a container that was stopped with its pod."""


STALL_LOOKS = 0.1
"""The interval, in seconds, at which a delayed pull checks whether the fault still delays it."""


class BackOff:
    """Waits that double with every failure."""

    def __init__(self, first: float, last: float) -> None:
        self._first = first
        self._last = last
        self._next = 0.0

    def wait(self) -> float:
        """Return the seconds to wait now: none the first time, then ``first``, doubling to
        ``last``.
        """
        now = self._next
        self._next = min(max(self._first, now * 2), self._last)
        return now

    def reset(self) -> None:
        self._next = 0.0


class ContainerRunner:
    """Runs one container by its pod's spec and restart policy."""

    def __init__(
        self,
        context: NodeContext,
        state: ContainerState,
        *,
        facts: Callable[[], PodFields],
        volumes: Callable[[], dict[str, Volume]],
        changed: Callable[[], None],
        init: bool = False,
    ) -> None:
        """Set up the runner. ``facts`` and ``volumes`` are called at each start, ``changed``
        whenever the state has changed."""
        self.state = state
        self._context = context
        self._facts = facts
        self._volumes = volumes
        self._changed = changed
        self._init = init
        self._pulls = BackOff(context.settings.back_off_first, context.settings.back_off_last)
        self._starts = BackOff(context.settings.back_off_first, context.settings.back_off_last)
        self._stopping = asyncio.Event()
        self._stops: set[asyncio.Task[None]] = set()
        self._probes: Prober | None = None
        self.up = asyncio.Event()
        """Set once the container has started (its startup probe succeeded)."""

    @property
    def _pod(self) -> Obj:
        return self._facts().pod

    def _event(self, reason: str, message: str, *, warning: bool = False) -> None:
        self._context.event(
            self._pod,
            reason,
            message,
            type="Warning" if warning else "Normal",
            container=self.state.name,
            init=self._init,
        )

    async def run(self, policy: str) -> None:
        """Run the container until its restart policy (``Always``, ``OnFailure``, ``Never``) lets it
        end, or until :meth:`stop`."""
        while not self._stopping.is_set():
            if not await self._pull():
                continue
            try:
                spec = self._spec()
            except (ConfigError, MountError) as error:
                if self.state.wait("CreateContainerConfigError", str(error)):
                    self._event("Failed", f"Error: {error}", warning=True)
                    self._changed()
                await self._pause(max(self._starts.wait(), self._context.settings.sandbox_retry))
                continue
            began = time.monotonic()
            ended = await self._once(spec)
            if (
                self._stopping.is_set()
                or policy == "Never"
                or (policy == "OnFailure" and ended.exit_code == 0)
            ):
                return
            if time.monotonic() - began > 2 * self._context.settings.back_off_last:
                self._starts.reset()
            await self._back_off()
            self.state.restarts += 1

    async def stop(self, grace: float) -> None:
        """End the container for good, after its preStop hook. Return when its process is gone.

        A second call shortens the wait of the first.
        """
        again = self._stopping.is_set()
        self._stopping.set()
        # cancel restarts: the preStop hook begins again from the start, as in the kubelet
        for restart in self._stops:
            restart.cancel()
        if self.state.running_since is not None:
            self._event("Killing", f"Stopping container {self.state.name}")
        if not self.state.id:
            return
        if not again and self.state.running_since is not None:
            grace = await self._pre_stop(grace)
        with suppress(RuntimeRefused):  # a start that was cut short left nothing to stop
            await self._context.runtime.stop(self.state.id, grace=grace)
        self.stop_probing()
        if self.state.running_since is not None:  # no task waits for the end any more
            since = self.state.running_since
            self._ended(
                ContainerExit(container=self.state.id, exit_code=KILLED, reason="Error"), since
            )

    def stop_probing(self) -> None:
        """Stop the probes. Until then readiness is probed, even while the pod ends."""
        if self._probes is not None:
            self._probes.stop()

    async def _pre_stop(self, grace: float) -> float:
        """Run the preStop hook of a running container; return the rest of the grace period in
        seconds (kuberuntime_container.go)."""
        began = time.monotonic()
        if grace <= 0 or self._probes is None or not self._probes.has("preStop"):
            return grace
        if not await self._probes.hook("preStop", grace):
            self._event("FailedPreStopHook", "PreStopHook failed", warning=True)
        return max(grace - (time.monotonic() - began), LEAST_GRACE)

    async def forget(self) -> None:
        """Remove the container's data from the runtime."""
        for container in (self.state.previous_id, self.state.id):
            if container:
                with suppress(RuntimeRefused):
                    await self._context.runtime.remove(container)

    async def _pause(self, seconds: float) -> None:
        """Wait for a number of seconds, or until :meth:`stop` if that comes earlier."""
        try:
            await asyncio.wait_for(self._stopping.wait(), seconds)
        except TimeoutError:
            return

    async def _back_off(self) -> None:
        delay = self._starts.wait()
        if not delay:
            return
        meta = self._pod["metadata"]
        place = f"{self.state.name} in pod {meta['name']}_{meta['namespace']}({meta['uid']})"
        self.state.wait(
            "CrashLoopBackOff",
            f"back-off {delay:g}s restarting failed container={self.state.name} "
            f"pod={meta['name']}_{meta['namespace']}({meta['uid']})",
        )
        self._event("BackOff", f"Back-off restarting failed container {place}", warning=True)
        self._changed()
        await self._pause(delay)

    async def _pull(self) -> bool:
        """Return whether the image is present. After a failed pull, return only when the next
        attempt is due."""
        reference = self.state.spec["image"]
        policy = self.state.spec.get("imagePullPolicy", "IfNotPresent")
        present = reference in self._context.images
        if present and policy != "Always":
            if not self.state.pulled:
                self._event("Pulled", f'Container image "{reference}" already present on machine')
            self.state.pulled = True
            return True
        if policy == "Never":
            message = f'Container image "{reference}" is not present with pull policy of Never'
            await self._not_pulled("ErrImageNeverPull", message, message)
            return False
        self._event("Pulling", f'Pulling image "{reference}"')
        began = time.monotonic()
        facts = self._context.runtime.image(reference)
        try:
            check_pull(
                facts, self._context.machine, host_process=host_process(self._pod, self.state.spec)
            )
        except PullError as error:
            message = str(error)
            await self._not_pulled(
                "ErrImagePull", message, f'Failed to pull image "{reference}": {message}'
            )
            return False
        if not present and self._context.profile.timing.image_pull_ms:
            await self._pause(self._context.profile.timing.image_pull_ms / 1000)
        while not present and self._context.faults.stalled("pulls", self._context.machine.name):
            await self._pause(STALL_LOOKS)
            if self._stopping.is_set():
                return False
        self._context.images.add(reference)
        self.state.pulled = True
        self._pulls.reset()
        took = f"{round((time.monotonic() - began) * 1000)}ms"
        self._event(
            "Pulled",
            f'Successfully pulled image "{reference}" in {took} ({took} including waiting). '
            f"Image size: {image_size(reference)} bytes.",
        )
        return True

    async def _not_pulled(self, reason: str, message: str, event: str) -> None:
        reference = self.state.spec["image"]
        self.state.wait(reason, message)
        self._event(reason if reason == "ErrImageNeverPull" else "Failed", event, warning=True)
        self._event("Failed", f"Error: {reason}", warning=True)
        self._changed()
        delay = self._pulls.wait() or self._pulls.wait()
        if reason == "ErrImagePull":
            await self._pause(min(self._context.settings.sandbox_retry, delay))
            if self._stopping.is_set():
                return
            self.state.wait(
                "ImagePullBackOff", f'Back-off pulling image "{reference}": {reason}: {message}'
            )
            self._event("BackOff", f'Back-off pulling image "{reference}"')
            self._event("Failed", "Error: ImagePullBackOff", warning=True)
            self._changed()
        await self._pause(delay)

    def _spec(self) -> ContainerSpec:
        facts = self._facts()
        container = self.state.spec
        pod = facts.pod
        machine = self._context.machine
        if machine.os == "windows":
            check_not_root(pod, container)
            granted = Privileges(tuple(USUAL_CAPABILITIES), port_start=0, may_ping=True)
        else:
            granted = privileges(pod, container)
        values = environment(facts, container, self._context.sources)
        command, args = command_line(container, values)
        mounted = mounts(container, self._volumes(), machine.os)
        self.state.environment = values
        return ContainerSpec(
            id=secrets.token_hex(32),
            pod=pod["metadata"]["uid"],
            name=self.state.name,
            os=machine.os,
            image=container["image"],
            command=command,
            args=args,
            env=tuple(values.items()),
            working_dir=container.get("workingDir") or "",
            files=mounted.files,
            empty_dirs=mounted.empty_dirs,
            host_network=bool(pod["spec"].get("hostNetwork")),
            host_process=host_process(pod, container),
            capabilities=granted.capabilities,
            port_start=granted.port_start,
            may_ping=granted.may_ping,
        )

    async def _once(self, spec: ContainerSpec) -> Ended:
        context = self._context
        state = self.state
        exited: asyncio.Future[ContainerExit] = asyncio.get_running_loop().create_future()
        context.exits[spec.id] = exited
        stale = state.previous_id
        state.previous_id = state.id
        state.id = spec.id
        self._event("Created", f"Created container: {state.name}")
        since = timestamp()
        try:
            if spec.os == "windows" and (problem := unknown_user(self._pod, state.spec, spec.id)):
                raise RuntimeRefused(problem)
            await context.runtime.start(spec)
        except RuntimeRefused as error:
            exited.set_result(
                ContainerExit(
                    container=spec.id,
                    exit_code=START_ERROR,
                    reason="ContainerCannotRun",
                    message=str(error),
                )
            )
        if stale:
            await context.runtime.remove(stale)
        if not (exited.done() and exited.result().reason == "ContainerCannotRun"):
            self._running(since)
            # a real kubelet mounts directories: a change during the start reaches the container
            if (files := self._spec().files) != spec.files and not exited.done():
                await context.runtime.update_files(spec.id, files)
        self._probes = prober = self._prober(spec)
        try:
            if not exited.done() and await prober.hook("postStart"):
                prober.start()
                self._changed()
            elif not exited.done():
                self._event("FailedPostStartHook", "PostStartHook failed", warning=True)
                self._restart("FailedPostStartHook")
            result = await exited
            prober.stop()
        finally:
            context.exits.pop(spec.id, None)
        return self._ended(result, since)

    def _running(self, since: str) -> None:
        self.state.run(since)
        self._event("Started", f"Started container {self.state.name}")
        self._context.container_started(self._context.machine.name, self._pod, self.state.name)

    def _prober(self, spec: ContainerSpec) -> Prober:
        facts = self._facts()
        address = facts.addresses[0] if facts.addresses else facts.host_address
        return Prober(
            self._context,
            facts.pod,
            self.state.spec,
            spec.id,
            address,
            changed=self._probed,
            kill=self._unwell,
        )

    def _probed(self, started: bool | None, ready: bool | None) -> None:
        if started is not None:
            self.state.started = started
            if started:
                self.up.set()
        if ready is not None:
            self.state.ready = ready
        self._changed()

    def _unwell(self, kind: str) -> None:
        if not self._stopping.is_set():
            self._restart(
                f"Container {self.state.name} failed {kind} probe, will be restarted", kind
            )

    def _restart(self, why: str, failed_probe: str = "") -> None:
        self._event("Killing", why)
        task = asyncio.create_task(self._stop_to_restart(self.state.id, failed_probe))
        self._stops.add(task)
        task.add_done_callback(self._stops.discard)

    async def _stop_to_restart(self, container: str, failed_probe: str) -> None:
        """Stop a container after its preStop hook, as killContainer of the kubelet does. If a
        liveness or startup probe failed and has its own grace period, this period applies."""
        grace = float(
            (self.state.spec.get(f"{failed_probe}Probe") or {}).get(
                GRACE_PERIOD, self._pod["spec"].get(GRACE_PERIOD, 30)
            )
        )
        await self._context.runtime.stop(container, grace=await self._pre_stop(grace))

    def _ended(self, result: ContainerExit, since: str) -> Ended:
        never_started = result.reason == "ContainerCannotRun"
        if self.state.running_since is not None:
            self._context.container_stopped(self._context.machine.name, self._pod, self.state.name)
        ended = Ended(
            exit_code=result.exit_code,
            reason="StartError" if never_started else result.reason,
            started="1970-01-01T00:00:00Z" if never_started else since,
            finished=timestamp(),
            container_id=self.state.id,
            message=result.message,
        )
        if never_started:
            self._event("Failed", f"Error: {result.message}", warning=True)
        self.state.end(ended)
        self._changed()
        return ended


def host_process(pod: Obj, container: Obj) -> bool:
    """Return whether a container runs on the Windows host itself."""
    return bool(windows_option(pod, container, "hostProcess"))
