# SPDX-License-Identifier: Apache-2.0
"""A container: its main command, the commands executed in it, its files and its log.

A command is an applet (a task in labd's loop) or a program (a real process,
:mod:`hybridlab.runtime.programs`); the image table decides which. If the lab has a real PowerShell,
a probe program of a Windows container is a real process, too. Nothing of a container outlives
:meth:`Container.stop`.
"""

import asyncio
import base64
import contextlib
import errno
import logging
import os
import signal
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass

from hybridlab.kernel import open_files
from hybridlab.kernel.errors import KernelError
from hybridlab.runtime import real_powershell, start_errors
from hybridlab.runtime.applet import Applet, Files, Host, Net, Output, Process
from hybridlab.runtime.files import MemoryFiles, place
from hybridlab.runtime.images import Found
from hybridlab.runtime.logs import LogBuffer, LogStream
from hybridlab.runtime.model import ContainerExit, ContainerSpec, ExecResult
from hybridlab.runtime.programs import MainCommand, ProgramHost, ProgramHosts, Running
from hybridlab.runtime.real_powershell import RealWindows
from hybridlab.runtime.streams import FdOutput, LazyReader, empty_stdin
from hybridlab.runtime.terminal import Terminal

_log = logging.getLogger(__name__)

KILLED = 128 + signal.SIGKILL
INTERRUPTED = 128 + signal.SIGINT
TERMINATED = 128 + signal.SIGTERM
_PIPE_CLOSED = 128 + signal.SIGPIPE
_DEAF = frozenset({"nc", "ping", "sleep", "wget"})
"""Linux programs that do not handle SIGTERM: as pid 1 of their container they ignore it."""
_WINDOWS_HOSTS = "C:\\Windows\\System32\\drivers\\etc\\hosts"
_LINUX_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class CannotStart(Exception):
    """An executable that cannot be started; ``errno`` has the reason."""

    def __init__(self, number: int = errno.ENOENT) -> None:
        super().__init__(os.strerror(number))
        self.errno = number
        open_files.notice(self)


@dataclass(frozen=True)
class Streams:
    """The three descriptors of a command; they still belong to the caller."""

    stdin: int | None
    stdout: int
    stderr: int


@dataclass(frozen=True)
class Surroundings:
    """The parts of labd that a container needs."""

    net: Net
    netns: int
    applets: Mapping[str, Applet]
    settings: Mapping[str, float | str | int]
    hosts: ProgramHosts
    volumes: Callable[[str], dict[str, bytes]]
    """Returns a pod's emptyDir by its key, as long as no real process uses it."""
    host: Host | None = None
    """The machine, for containers on Linux and for HostProcess containers on Windows."""
    windows: RealWindows | None = None
    """The PowerShell that runs the probe programs of a Windows container that is no HostProcess
    container; None: the emulation."""


class Container:
    """A container from its start to its removal."""

    def __init__(
        self,
        spec: ContainerSpec,
        found: Found,
        around: Surroundings,
        on_exit: Callable[[ContainerExit], None],
    ) -> None:
        self.spec = spec
        self.logs = LogBuffer()
        self._found = found
        self._around = around
        self._on_exit = on_exit
        self._env = self._environment()
        self._memory = MemoryFiles(spec.os, spec.working_dir)
        if spec.os == "windows" and not spec.host_process:
            self._memory.write(_WINDOWS_HOSTS, around.net.etc_hosts.encode())
        for mount, key in spec.empty_dirs.items():
            self._memory.share(mount, around.volumes(key))
        for path, content in spec.files.items():
            self._memory.write(path, base64.b64decode(content))
        self._starting = asyncio.Lock()
        self._hosting: asyncio.Task[ProgramHost] | None = None
        """The host of the container's real processes, from the time when the first process is
        requested."""
        self._work: asyncio.Task[int] | None = None
        self._main: asyncio.Task[None] | None = None
        self._main_program: Running | None = None
        self._main_applet: Process | None = None
        self._execs: set[asyncio.Task[int]] = set()
        self._stopping = False
        """True once the grace period of :meth:`stop` is over."""
        self.running = False

    def _environment(self) -> dict[str, str]:
        env = (
            {"PATH": _LINUX_PATH}
            if self.spec.os == "linux"
            else {"COMPUTERNAME": self._around.net.hostname[:15].upper()}
        )
        env |= self._around.hosts.environment(self._found.image)
        env |= self._found.image.env
        if self.spec.os == "linux":
            env |= {"HOSTNAME": self._around.net.hostname, "HOME": "/root"}
        return env | dict(self.spec.env)

    @property
    def files(self) -> Files:
        """Return the container's current files: in memory, or in a real file system."""
        hosting = self._hosting
        if hosting is not None and hosting.done() and hosting.exception() is None:
            return hosting.result().files
        return self._memory

    def update_files(self, files: dict[str, str]) -> None:
        for path, content in files.items():
            self.files.write(path, base64.b64decode(content))

    async def start(self) -> None:
        """Start the main command; a command that cannot start ends the container at once."""
        async with self._starting:
            if self._stopping:
                return
            argv = self._found.image.argv(self.spec.command, self.spec.args)
            self.running = True
            out = self.logs.stream()
            err = self.logs.stream()
            try:
                if self._around.windows is not None and self.spec.empty_dirs:
                    # a process of another container may write to the shared directories, so they
                    # must be real
                    await self._program_host()
                work = await self._main_work(argv, out, err)
            except CannotStart as failed:
                words = start_errors.create_failed(self.spec.os, self.spec.id, argv, failed.errno)
                self._ended(start_errors.START_ERROR_STATUS, "ContainerCannotRun", words)
                return
            self._work = asyncio.create_task(work)
            self._main = asyncio.create_task(self._live(self._work, (out, err)))

    async def _main_work(
        self, argv: tuple[str, ...], out: LogStream, err: LogStream
    ) -> Coroutine[None, None, int]:
        if not argv:
            raise CannotStart
        if words := self._probe_program(argv):
            return self._run_powershell(words, None, (out, err))
        command = self._found.image.command(argv[0], self.spec.os)
        if command is not None and command.kind == "applet":
            self._main_applet = self._process(argv, empty_stdin(), out, err)
            self._main_applet.outlives_term = self.spec.os == "linux" and command.target in _DEAF
            return self._run_applet(self._applet(command.target), self._main_applet)
        if command is not None and command.kind == "not_emulated":
            return self._not_emulated(argv, err)
        if self.spec.os == "windows":
            raise CannotStart
        return await self._start_main_program(argv, out, err)

    async def _live(self, work: asyncio.Task[int], outputs: tuple[LogStream, LogStream]) -> None:
        """Wait until the main command has ended, and then end everything else in the container."""
        await asyncio.wait({work})
        status = (KILLED if self._stopping else TERMINATED) if work.cancelled() else work.result()
        self._stopping = True
        for output in outputs:
            output.flush()
        await self._kill_everything()
        self._ended(status, "Error" if status else "Completed")

    async def _start_main_program(
        self, argv: tuple[str, ...], out: LogStream, err: LogStream
    ) -> Coroutine[None, None, int]:
        try:
            host = await self._program_host(MainCommand(argv, self._env, out.feed, err.feed))
        except OSError as error:
            raise CannotStart(error.errno or errno.ENOENT) from None
        assert host.main is not None
        self._main_program = host.main
        return host.main.wait()

    def _ended(self, status: int, reason: str, message: str = "") -> None:
        self.running = False
        self.logs.close()
        self._on_exit(
            ContainerExit(container=self.spec.id, exit_code=status, reason=reason, message=message)  # type: ignore[arg-type]
        )

    async def stop(self, grace: float) -> None:
        """End the main command and everything that the container started; return when everything
        has ended.

        Until then the container serves and accepts commands. A second call with a shorter time
        shortens the wait.
        """
        async with self._starting:
            if self._main is None or self._work is None:
                self._stopping = True
                return
            if self._main_program is not None:
                self._main_program.terminate()
            elif self._main_applet is not None and self._main_applet.outlives_term:
                self._main_applet.terminated.set()
            else:
                self._work.cancel()
        await asyncio.wait({self._main}, timeout=grace)
        self._stopping = True
        if self._main_program is not None:
            self._main_program.kill()
        elif not self._work.done():
            self._work.cancel()
        await asyncio.wait({self._main})

    async def _kill_everything(self) -> None:
        for task in list(self._execs):
            task.cancel()
        await asyncio.gather(*self._execs, return_exceptions=True)
        if self._hosting is not None:
            await asyncio.wait({self._hosting})
            if self._hosting.exception() is None:
                await self._hosting.result().close()

    async def exec(
        self, argv: tuple[str, ...], streams: Streams, *, tty: bool = False
    ) -> ExecResult:
        """Run a command to its end.  Cancellation kills it, and so does the end of the container."""
        async with self._starting:
            pass  # a command that arrives while the container starts waits until it runs
        if not self.running or self._stopping:
            return ExecResult(
                exit_code=None, start_error=f"container {self.spec.name} is not running"
            )
        if not argv:
            return ExecResult(
                exit_code=None,
                start_error="you must specify at least one command for the container",
            )
        task: asyncio.Task[int] = asyncio.create_task(
            (self.run_in_terminal if tty else self.run)(argv, streams)
        )
        self._execs.add(task)
        try:
            return ExecResult(exit_code=await asyncio.shield(task))
        except CannotStart as failed:
            words = start_errors.exec_failed(self.spec.os, self.spec.id, argv, failed.errno)
            return ExecResult(exit_code=None, start_error=words)
        except asyncio.CancelledError:
            if task.cancelled():
                return ExecResult(exit_code=KILLED)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            raise
        finally:
            self._execs.discard(task)

    async def run_in_terminal(self, argv: tuple[str, ...], streams: Streams) -> int:
        """Run a command like :meth:`run`, with a terminal; standard error goes to standard
        output."""
        command = self._found.image.command(argv[0], self.spec.os)
        applet = command is not None and command.kind == "applet"
        interrupted = False

        def interrupt() -> None:
            nonlocal interrupted
            interrupted = True
            task.cancel()

        terminal = Terminal(streams.stdin, streams.stdout, interrupt if applet else None)
        task = asyncio.create_task(
            self.run(argv, Streams(terminal.slave, terminal.slave, terminal.slave))
        )
        try:
            return await task
        except asyncio.CancelledError:
            if not interrupted:
                raise
            return INTERRUPTED
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await terminal.close()

    async def run(self, argv: tuple[str, ...], streams: Streams) -> int:
        """Run a command according to the image table; raise :class:`CannotStart`."""
        err = FdOutput(streams.stderr)
        if words := self._probe_program(argv):
            return await self._run_powershell(words, streams.stdin, (FdOutput(streams.stdout), err))
        command = self._found.image.command(argv[0], self.spec.os)
        if command is not None and command.kind == "not_emulated":
            return await self._not_emulated(argv, err)
        if command is not None and command.kind == "applet":
            return await self.run_applet(command.target, argv, streams)
        if self.spec.os == "windows":
            raise CannotStart
        host = await self._program_host()
        try:
            running = await host.start(
                argv, self._env, streams.stdin, streams.stdout, streams.stderr
            )
        except OSError as error:
            raise CannotStart(error.errno or errno.ENOENT) from None
        try:
            return await running.wait()
        finally:
            running.kill()

    def _probe_program(self, argv: tuple[str, ...]) -> tuple[str, ...]:
        """Return the command line for the real PowerShell if a command runs a probe program;
        otherwise an empty tuple."""
        real = self._around.windows
        command = self._found.image.command(argv[0], self.spec.os) if argv and real else None
        if (
            real is None
            or command is None
            or command.target != "powershell"
            or ((found := real.find_program(argv, self.files)) is None)
        ):
            return ()
        path = place(found[0], self.spec.working_dir)
        return real_powershell.command(real.powershell, ("-File", path, *found[1]))

    async def _run_powershell(
        self,
        words: tuple[str, ...],
        stdin: int | None,
        outputs: tuple[Output, Output],
    ) -> int:
        """Run a probe program as a process; return its exit status.  Cancellation kills it."""
        assert self._around.windows is not None
        try:
            host = await self._program_host()
            env = real_powershell.environment(self._env)
            return await self._around.windows.starts.run(host, words, env, stdin, outputs)
        except (OSError, KernelError) as error:
            await outputs[1].write(f"powershell cannot be started here: {error}\n".encode())
            return 1

    async def run_applet(
        self,
        name: str,
        argv: tuple[str, ...],
        streams: Streams,
        env: Mapping[str, str] | None = None,
        files: Files | None = None,
    ) -> int:
        """Run an applet with the given descriptors; ``env`` and ``files`` are set if a shell in the
        container started it."""
        stdin = LazyReader(streams.stdin) if streams.stdin is not None else empty_stdin()
        try:
            out = FdOutput(streams.stdout)
            err = FdOutput(streams.stderr)
            return await self._run_applet(
                self._applet(name), self._process(argv, stdin, out, err, env=env, files=files)
            )
        finally:
            if isinstance(stdin, LazyReader):
                stdin.stop()

    def _applet(self, name: str) -> Applet:
        applet = self._around.applets.get(name)
        if applet is None:

            async def missing(process: Process) -> int:
                await process.stderr.write(
                    f"not emulated: {name}: labd was started without this program\n".encode()
                )
                return 1

            return missing
        return applet

    def _process(
        self,
        argv: tuple[str, ...],
        stdin: asyncio.StreamReader,
        out: Output,
        err: Output,
        *,
        env: Mapping[str, str] | None = None,
        files: Files | None = None,
    ) -> Process:
        settings = {**self._around.settings, "image": self.spec.image, "os": self.spec.os}
        if any(self._found.builds):
            settings["windows_version"] = f"10.0.{max(self._found.builds)}.1"
        if self._around.windows is not None:
            settings["powershell"] = self._around.windows.powershell.version
        return Process(
            argv=argv,
            env=self._env if env is None else env,
            net=self._around.net,
            files=files or _Current(self),
            stdin=stdin,
            stdout=out,
            stderr=err,
            settings=settings,
            host=self._around.host,
        )

    async def _run_applet(self, applet: Applet, process: Process) -> int:
        try:
            return await applet(process)
        except BrokenPipeError:
            return _PIPE_CLOSED
        except Exception:
            _log.exception(
                "applet %s in container %s (%s)", process.argv, self.spec.name, self.spec.image
            )
            with contextlib.suppress(OSError):
                words = f"not emulated: {process.argv[0]} failed inside the lab; labd's log has the traceback\n"
                await process.stderr.write(words.encode())
            return 1

    async def _not_emulated(self, argv: tuple[str, ...], err: Output) -> int:
        await err.write(f"not emulated: {argv[0]} in image {self._found.reference}\n".encode())
        return 1

    async def _program_host(self, main: MainCommand | None = None) -> ProgramHost:
        """Return the host of the container's real processes, which is built once.

        If the command that needs the host is cancelled, the construction continues, and the next
        command uses the result.
        """
        if self._hosting is None or (
            self._hosting.done() and self._hosting.exception() is not None
        ):
            self._hosting = asyncio.create_task(
                self._around.hosts.create(
                    spec=self.spec,
                    image=self._found.image,
                    net=self._around.net,
                    netns=self._around.netns,
                    memory=self._memory,
                    run_shim=self._run_shim,
                    main=main,
                )
            )
        return await asyncio.shield(self._hosting)

    async def _run_shim(
        self, argv: tuple[str, ...], env: Mapping[str, str], files: Files, fds: tuple[int, int, int]
    ) -> int:
        """Run the applet that a shell in the container called, or report that a command is not
        emulated."""
        streams = Streams(*fds)
        command = self._found.image.command(argv[0], self.spec.os)
        if command is None or command.kind == "program":
            words = f"not emulated: {argv[0].rsplit('/', 1)[-1]}: the machine that runs the lab has no such program\n"
            await FdOutput(streams.stderr).write(words.encode())
            return 1
        if command.kind == "not_emulated":
            return await self._not_emulated(
                (argv[0].rsplit("/", 1)[-1], *argv[1:]), FdOutput(streams.stderr)
            )
        return await self.run_applet(command.target, argv, streams, env, files)


class _Current:
    """The container's files at the time of each access: they may move into a real file system at
    any time."""

    def __init__(self, container: Container) -> None:
        self._container = container

    def read(self, path: str) -> bytes:
        return self._container.files.read(path)

    def write(self, path: str, data: bytes) -> None:
        self._container.files.write(path, data)
