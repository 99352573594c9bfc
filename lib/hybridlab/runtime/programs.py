# SPDX-License-Identifier: Apache-2.0
"""Real processes of a container: in its pod's network, in its own mount, UTS and pid namespace,
without privileges.

The first process of a container is pid 1 of its pid namespace: when it ends, all processes of the
container end. If the main command is an applet, a sleeping process is pid 1. Processes lose every
capability that could reach a mount or another namespace; the read-only binds therefore stay
read-only, no matter which user started the lab.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import fcntl
import os
import signal
import subprocess
import termios
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from hybridlab.kernel import namespaces, open_files
from hybridlab.kernel.errors import KernelError
from hybridlab.kernel.reaper import Child, Reaper
from hybridlab.runtime import images, rootfs
from hybridlab.runtime.applet import Files, Net
from hybridlab.runtime.files import MemoryFiles, place
from hybridlab.runtime.images import Image
from hybridlab.runtime.model import USUAL_CAPABILITIES, ContainerSpec, PowerShell
from hybridlab.runtime.rootfs import Builder, BuiltRoot, Layout, RootFiles, WindowsFiles
from hybridlab.runtime.shim import ShimServer

T = TypeVar("T")
Feed = Callable[[bytes], None]
ShimRun = Callable[
    [tuple[str, ...], Mapping[str, str], Files, tuple[int, int, int]], Awaitable[int]
]

_libc = ctypes.CDLL(None, use_errno=True)
_LAST_CAPABILITY = 63
_PR_CAPBSET_DROP = 24
_PR_CAPBSET_READ = 23

_INIT = ("/bin/sh", "-c", "trap '' CHLD; exec sleep infinity")
"""The command of a process that keeps a pid namespace alive; because it ignores SIGCHLD, the kernel
collects orphaned processes."""
_OF_INIT = frozenset({"sh", "sleep"})
_READ_SIZE = 65536


class Running:
    """A process of a container."""

    def __init__(self, child: Child, pumps: Sequence[_Pump] = ()) -> None:
        self._child = child
        self._pumps = pumps

    async def wait(self) -> int:
        """Return the exit status, or 128 + signal if it was killed."""
        status = await self._child.wait()
        for pump in self._pumps:
            pump.finish()
        return 128 - status if status < 0 else status

    def terminate(self) -> None:
        """Send SIGTERM to this process alone, as a real runtime does; pid 1 ignores it if it has no
        handler."""
        self._child.kill(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL to the process and its process group; do nothing if it has ended."""
        if self._child.running:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._child.pid, signal.SIGKILL)


@dataclass(frozen=True)
class MainCommand:
    """A container's main command and the destination of its output."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    out: Feed
    err: Feed


class ProgramHosts:
    """Creates :class:`ProgramHost` objects; owns the only thread that enters containers."""

    def __init__(self, reaper: Reaper, powershell: PowerShell | None = None) -> None:
        """Set up the creation of program hosts. ``powershell``: the PowerShell of Windows
        containers, in which no other real process runs."""
        self._reaper = reaper
        self._builder = Builder(powershell)
        self._executor: ThreadPoolExecutor | None = None
        self._volumes: dict[str, set[str]] = {}
        rootfs.offer(name for image in images.table() for name in image.programs)

    async def run(self, work: Callable[[], T]) -> T:
        if self._executor is None:
            self._executor = ThreadPoolExecutor(
                1, thread_name_prefix="containers", initializer=self._prepare_thread
            )
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)

    def _prepare_thread(self) -> None:
        self._builder.enter_thread()
        others = set(range(_LAST_CAPABILITY + 1)) - set(USUAL_CAPABILITIES.values())
        _drop(other for other in others if _libc.prctl(_PR_CAPBSET_READ, other, 0, 0, 0) >= 0)

    async def create(
        self,
        *,
        spec: ContainerSpec,
        image: Image,
        net: Net,
        netns: int,
        memory: MemoryFiles,
        run_shim: ShimRun,
        main: MainCommand | None,
    ) -> ProgramHost:
        """Build a container's file system and start its first process; raise OSError if there is no
        such executable.

        ``memory``: the present files, which move into the file system. ``main``: the container's
        main command; None if it is an applet, so that a sleeping process keeps the pid namespace
        alive.
        """
        volumes = {
            path: spec.volume(key).replace("/", "_") for path, key in spec.empty_dirs.items()
        }
        self._volumes.setdefault(spec.pod, set()).update(volumes.values())
        if spec.os == "windows":
            layout = Layout(
                image="powershell",
                programs=_OF_INIT,
                shims=frozenset(),
                paths=(),
                python=False,
                hostname=net.hostname,
                files=_etc(net) | {place(path): data for path, data in memory.own().items()},
                volumes={place(path): volume for path, volume in volumes.items()},
                powershell=True,
            )
        else:
            layout = Layout(
                image=image.name,
                programs=image.programs,
                shims=frozenset(image.commands) - image.programs - {"python", "python3"},
                paths=tuple(
                    word for word in (*image.entrypoint[:1], *image.cmd[:1]) if word.startswith("/")
                ),
                python=image.python,
                hostname=net.hostname,
                files={**_etc(net), **memory.own()},
                volumes=volumes,
            )
        host = ProgramHost(self, self._builder, self._reaper, netns, spec)
        await host.begin(layout, run_shim, main)
        for path in spec.empty_dirs:
            for name, data in memory.volume(path).items():
                host.files.write(f"{path}/{name}", data)
        return host

    def environment(self, image: Image) -> dict[str, str]:
        """Return the variables that an image's own interpreter needs in this file system."""
        path = self._builder.python.library_path("/usr/local") if image.python else ""
        return {"LD_LIBRARY_PATH": path} if path else {}

    def forget_pod(self, pod: str) -> None:
        names = {name for name in self._volumes.pop(pod, ()) if name.startswith(f"{pod}_")}
        if names and self._executor is not None:
            self._executor.submit(self._builder.drop_volumes, names)


class ProgramHost:
    """The real processes of a container."""

    def __init__(
        self,
        hosts: ProgramHosts,
        builder: Builder,
        reaper: Reaper,
        netns: int,
        spec: ContainerSpec,
    ) -> None:
        self._hosts = hosts
        self._builder = builder
        self._reaper = reaper
        self._netns = netns
        self._spec = spec
        on_windows = spec.os == "windows"
        self._working_dir = place(spec.working_dir) if on_windows else spec.working_dir or "/"
        self._dropped = [
            number for name, number in USUAL_CAPABILITIES.items() if name not in spec.capabilities
        ]
        self._pid_namespace = -1
        self._built: BuiltRoot
        self._init: Child
        self._shims: ShimServer
        self.files: RootFiles
        self.main: Running | None = None
        """The main command, if it is a process."""

    async def begin(self, layout: Layout, run_shim: ShimRun, main: MainCommand | None) -> None:
        """Create the file system and start pid 1 in it."""
        with contextlib.ExitStack() as closing:
            outputs = [] if main is None else [os.pipe2(os.O_CLOEXEC) for _ in range(2)]
            for _, write in outputs:
                closing.callback(os.close, write)
            reads = [read for read, _ in outputs]

            def work() -> tuple[BuiltRoot, Child]:
                built = self._builder.build(layout)
                try:
                    if main is None:
                        return built, self._spawn(_INIT, _INIT_ENV, "/", (None, 2, 2), first=True)
                    fds = (None, outputs[0][1], outputs[1][1])
                    return built, self._spawn(
                        main.argv, main.env, self._working_dir, fds, first=True
                    )
                except BaseException:
                    built.close()
                    raise
                finally:
                    self._builder.go_home()

            try:
                self._built, self._init = await self._hosts.run(work)
            except BaseException:
                for read in reads:
                    os.close(read)
                raise
        if main is not None:
            pumps = [
                _Pump(read, feed) for read, feed in zip(reads, (main.out, main.err), strict=True)
            ]
            self.main = Running(self._init, pumps)
        files = WindowsFiles if self._spec.os == "windows" else RootFiles
        self.files = files(self._built.root, self._spec.working_dir)

        async def run(
            argv: tuple[str, ...], env: Mapping[str, str], here: str, fds: tuple[int, int, int]
        ) -> int:
            return await run_shim(argv, env, RootFiles(self._built.root, here), fds)

        self._shims = ShimServer(self._built.listener, run)

    async def start(
        self,
        argv: tuple[str, ...],
        env: Mapping[str, str],
        stdin: int | None,
        stdout: int,
        stderr: int,
    ) -> Running:
        """Start another process with the caller's descriptors; raise OSError if there is no such
        executable."""

        terminal = stdin is not None and os.isatty(stdin) and os.isatty(stdout)

        def work() -> Child:
            try:
                self._builder.enter(self._built, self._pid_namespace)
                return self._spawn(
                    argv, env, self._working_dir, (stdin, stdout, stderr), terminal=terminal
                )
            finally:
                self._builder.go_home()

        spawning = asyncio.ensure_future(self._hosts.run(work))
        try:
            return Running(await asyncio.shield(spawning))
        except asyncio.CancelledError:
            with contextlib.suppress(OSError):
                Running(await spawning).kill()
            raise

    def _spawn(
        self,
        argv: tuple[str, ...],
        env: Mapping[str, str],
        directory: str,
        fds: tuple[int | None, int, int],
        *,
        first: bool = False,
        terminal: bool = False,
    ) -> Child:
        """Start a process; runs in the thread, inside the container's namespaces.

        ``terminal``: the descriptors are a terminal, which becomes the controlling terminal of the
        process.
        """
        stdin, stdout, stderr = fds
        os.makedirs(directory, exist_ok=True)  # noqa: PTH103 - as the real runtime does
        os.chdir(directory)
        path = _executable(argv[0], env)
        namespaces.setns(self._netns)

        def prepare() -> None:
            open_files.restore_limit()
            if first:
                rootfs.seal()
            _drop(self._dropped)
            if terminal:
                fcntl.ioctl(1, termios.TIOCSCTTY)

        def begin() -> int:
            process = subprocess.Popen(
                argv,
                executable=path,
                env={"TERM": "xterm", **env} if terminal else env,
                stdin=subprocess.DEVNULL if stdin is None else stdin,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
                preexec_fn=prepare,  # noqa: PLW1509 - it makes a few system calls and takes no lock
            )
            process.returncode = 0  # the reaper collects it; subprocess must not try
            if first:  # even if it has ended, its namespace exists until it is collected
                self._pid_namespace = self._builder.pid_namespace_of(process.pid)
            return process.pid

        return self._reaper.spawn(begin)

    async def close(self) -> None:
        """Kill every process of the container and release all its resources."""
        await self._shims.close()
        self._init.kill(signal.SIGKILL)
        await self._init.wait()
        self._built.close()
        os.close(self._pid_namespace)


_INIT_ENV = {"PATH": "/usr/bin"}


def _drop(capabilities: Iterable[int]) -> None:
    """Remove capabilities from programs that the calling thread executes. Raise KernelError."""
    for capability in capabilities:
        if _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
            raise KernelError(f"drop capability {capability}", ctypes.get_errno())


def _executable(argv0: str, env: Mapping[str, str]) -> str:
    """Return the file that execvp would run; raise OSError with the reason."""
    if "/" in argv0:
        if not os.access(argv0, os.F_OK):
            raise OSError(errno.ENOENT, "no such file or directory", argv0)
        if os.path.isdir(argv0) or not os.access(argv0, os.X_OK):  # noqa: PTH112 - inside the container
            raise OSError(errno.EACCES, "permission denied", argv0)
        return argv0
    for directory in env.get("PATH", "").split(":"):
        candidate = f"{directory or '.'}/{argv0}"
        if os.path.isfile(candidate) and os.access(candidate, os.X_OK):  # noqa: PTH113 - inside the container
            return candidate
    raise OSError(errno.ENOENT, "executable file not found in $PATH", argv0)


def _etc(net: Net) -> dict[str, bytes]:
    """Return the files that a kubelet and an image put under /etc."""
    lines = [f"search {' '.join(net.searches)}"] if net.searches else []
    lines += [f"nameserver {server}" for server in net.nameservers]
    lines += [f"options {' '.join(net.resolver_options)}"] if net.resolver_options else []
    return {
        "/etc/resolv.conf": ("\n".join(lines) + "\n").encode(),
        "/etc/hosts": (
            net.etc_hosts or f"127.0.0.1\tlocalhost\n{net.address}\t{net.hostname}\n"
        ).encode(),
        "/etc/hostname": f"{net.hostname}\n".encode(),
        "/etc/passwd": b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
        "/etc/group": b"root:x:0:\nnogroup:x:65534:\n",
        "/etc/nsswitch.conf": b"passwd: files\ngroup: files\nhosts: files dns\n",
    }


class _Pump:
    """Passes a pipe's bytes to a callback; owns the descriptor."""

    def __init__(self, fd: int, feed: Feed) -> None:
        self._fd = fd
        self._feed = feed
        os.set_blocking(fd, False)  # no other process has the reading end
        asyncio.get_running_loop().add_reader(fd, self._readable)

    def _readable(self) -> None:
        with contextlib.suppress(BlockingIOError):
            data = os.read(self._fd, _READ_SIZE)
            if data:
                self._feed(data)
            else:
                asyncio.get_running_loop().remove_reader(self._fd)

    def finish(self) -> None:
        """Read the rest of the output; other processes that still have the pipe open are
        ignored."""
        asyncio.get_running_loop().remove_reader(self._fd)
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self._fd, _READ_SIZE):
                self._feed(data)
        os.close(self._fd)
