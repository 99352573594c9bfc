# SPDX-License-Identifier: Apache-2.0
"""Startup, readiness and liveness probes of a running container, and its hooks.

gRPC probes and https are not emulated: they fail with a message that says so.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

from hybridlab.api.contract import Obj
from hybridlab.controllers.node_context import NodeContext
from hybridlab.runtime.contract import RuntimeRefused
from hybridlab.runtime.model import ProbeResult, ProbeSpec


class Prober:
    """The prober of a single run of a container, until stopped."""

    def __init__(
        self,
        context: NodeContext,
        pod: Obj,
        container: Obj,
        container_id: str,
        address: str,
        *,
        changed: Callable[[bool | None, bool | None], None],
        kill: Callable[[str], None],
    ) -> None:
        """Set up the prober. ``changed(started, ready)`` receives changes (None: unchanged);
        ``kill(kind)`` requests a restart."""
        self._context = context
        self._pod = pod
        self._container = container
        self._id = container_id
        self._address = address
        self._changed = changed
        self._kill = kill
        self._born = time.monotonic()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin to probe. Without a startup probe, the container counts as started at once; without
        a readiness probe, it counts as ready at once."""
        startup = self._container.get("startupProbe")
        if startup:
            self._changed(False, False)
            self._spawn(self._startup(startup))
        else:
            self._after_startup()

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.create_task(work, name=f"probe {self._container['name']}"))

    def _after_startup(self) -> None:
        readiness = self._container.get("readinessProbe")
        liveness = self._container.get("livenessProbe")
        self._changed(True, not readiness)
        if readiness:
            self._spawn(self._readiness(readiness))
        if liveness:
            self._spawn(self._liveness(liveness))

    async def _startup(self, probe: Obj) -> None:
        if await self._until_failed("Startup", probe, once=True):
            self._after_startup()
        else:
            self._kill("startup")

    async def _liveness(self, probe: Obj) -> None:
        await self._until_failed("Liveness", probe, once=False)
        self._kill("liveness")

    async def _until_failed(self, kind: str, probe: Obj, *, once: bool) -> bool:
        """Probe until the probe failed ``failureThreshold`` times in a row (return False), or, with
        ``once``, succeeded (return True)."""
        failures = 0
        await asyncio.sleep(probe.get("initialDelaySeconds") or 0)
        while True:
            result = await self.probe(probe)
            if result.ok and once:
                return True
            failures = 0 if result.ok else failures + 1
            if not result.ok and once and self._early():
                failures = 0
                await asyncio.sleep(self._context.settings.early_probe_period)
                continue
            if not result.ok:
                self._unhealthy(kind, result)
            if failures >= (probe.get("failureThreshold") or 3):
                return False
            await asyncio.sleep(probe.get("periodSeconds") or 10)

    async def _readiness(self, probe: Obj) -> None:
        now_ready = False
        agreeing = 0
        await asyncio.sleep(probe.get("initialDelaySeconds") or 0)
        while True:
            result = await self.probe(probe)
            if not now_ready and not result.ok and self._early():
                await asyncio.sleep(self._context.settings.early_probe_period)
                continue
            if not result.ok:
                self._unhealthy("Readiness", result)
            agreeing = agreeing + 1 if result.ok != now_ready else 0
            threshold = (
                probe.get("successThreshold") or 1
                if result.ok
                else probe.get("failureThreshold") or 3
            )
            if agreeing >= threshold:
                now_ready = result.ok
                agreeing = 0
                self._changed(None, now_ready)
            await asyncio.sleep(probe.get("periodSeconds") or 10)

    def _early(self) -> bool:
        return time.monotonic() - self._born < self._context.settings.early_probe_window

    def _unhealthy(self, kind: str, result: ProbeResult) -> None:
        self._context.event(
            self._pod,
            "Unhealthy",
            f"{kind} probe failed: {result.message}",
            type="Warning",
            container=self._container["name"],
        )

    def has(self, hook: str) -> bool:
        """Return whether the container has this lifecycle hook."""
        return hook in (self._container.get("lifecycle") or {})

    async def hook(self, name: str, limit: float = 3600.0) -> bool:
        """Run a lifecycle hook, at most for ``limit`` seconds; return whether it succeeded, True if
        there is no hook.

        For postStart a kubelet waits without a limit.
        """
        handler = (self._container.get("lifecycle") or {}).get(name, {"sleep": {"seconds": 0}})
        if "sleep" in handler:
            await asyncio.sleep(min(float(handler["sleep"]["seconds"]), limit))
            return True
        return (await self.probe({**handler, "timeoutSeconds": limit})).ok

    async def probe(self, probe: Obj) -> ProbeResult:
        """Probe once."""
        spec = self._spec(probe)
        if isinstance(spec, str):
            return ProbeResult(ok=False, message=spec)
        if spec.kind != "exec" and self._context.faults.stalled("probes", spec.node):
            return ProbeResult(ok=False, message="connect: connection timed out")
        try:
            return await self._context.runtime.probe(spec)
        except RuntimeRefused as error:
            return ProbeResult(ok=False, message=str(error))

    def _spec(self, probe: Obj) -> ProbeSpec | str:
        """Return the probe in the runtime's form, or the reason why the probe cannot be run."""
        node = self._context.machine.name
        timeout = float(probe.get("timeoutSeconds") or 1)
        if "exec" in probe:
            argv = tuple(probe["exec"].get("command") or ())
            return ProbeSpec(kind="exec", node=node, container=self._id, argv=argv, timeout=timeout)
        if "tcpSocket" in probe:
            kind = "tcp"
            handler = probe["tcpSocket"]
        elif "httpGet" in probe:
            kind = "http"
            handler = probe["httpGet"]
            if (handler.get("scheme") or "HTTP").upper() != "HTTP":
                return "not emulated: https probes"
        else:
            return "not emulated: probes other than exec, httpGet and tcpSocket"
        port = self._port(handler["port"])
        if port is None:
            return f"couldn't find port: {handler['port']!r}"
        return ProbeSpec(
            kind="http" if kind == "http" else "tcp",
            node=node,
            address=handler.get("host") or self._address,
            port=port,
            path=handler.get("path") or "/",
            timeout=timeout,
        )

    def _port(self, wanted: int | str) -> int | None:
        if isinstance(wanted, int) or wanted.isdigit():
            return int(wanted)
        ports = self._container.get("ports") or ()
        return next((port["containerPort"] for port in ports if port.get("name") == wanted), None)
