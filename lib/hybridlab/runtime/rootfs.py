# SPDX-License-Identifier: Apache-2.0
"""A container's own file system: a tmpfs with read-only binds of what its programs need, nothing else of the machine.

It is made in two steps.  Once per lab, a *template* mount namespace is made: a tmpfs that holds copies of the few
programs, the shims, and read-only binds of the library directories and of the Python interpreter's standard library
(never its site-packages).  Once per container, and only when its first real process starts, the container gets a copy
of the template's namespace, a tmpfs of its own as root, binds from the template, and its own ``/proc`` and ``/dev``.
Then pivot_root changes to this root, and everything else is detached, so no path leads out.

Everything here runs in one thread that has file-system attributes of its own (``CLONE_FS``); mounts of labd itself are
never changed.  Needs Linux 5.12 (mount_setattr makes binds read-only with everything mounted below them).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import socket
import struct
import sys
import sysconfig
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from hybridlab.kernel import namespaces
from hybridlab.kernel.errors import KernelError
from hybridlab.kernel.namespaces import (
    CLONE_NEWNS,
    CLONE_NEWPID,
    CLONE_NEWUTS,
    MS_BIND,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_PRIVATE,
    MS_RDONLY,
    MS_REC,
)
from hybridlab.runtime.files import place
from hybridlab.runtime.model import PowerShell
from hybridlab.runtime.shim import HOME, SOCKET_PATH, program

_SYSTEM_PATH = "/usr/bin:/bin:/usr/sbin:/sbin:/usr/local/bin"
_SAME = {"ash": "sh"}
"""For each program that images may name, this machine's program that takes its place."""
_LIBRARIES = ("/lib", "/lib32", "/lib64", "/libx32", "/usr/lib", "/usr/lib32", "/usr/lib64")
_DEVICES = ("null", "zero", "full", "random", "urandom")
_SIZE = "size=64m,mode=755"
"""Mount options of every container's tmpfs: a faulty program must not fill the machine's memory."""

POWERSHELL = "/opt/powershell"
DOTNET = "/opt/dotnet"
"""The folder of the real PowerShell's .NET in a Windows container."""

_NR_MOUNT_SETATTR = 442
_AT_RECURSIVE = 0x8000
_ATTR_RDONLY = 1
_ATTR_NOSUID = 2
_ATTR_NODEV = 4
_NR_OPENAT2 = 437
_RESOLVE_IN_ROOT = 0x10

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class PythonHome:
    """The paths of this interpreter's parts. If labd runs in a virtual environment, they are the
    base interpreter's."""

    binary: str
    stdlib: str
    library: str | None
    """The path of libpython if the interpreter is linked to a shared library outside the system
    directories."""

    def library_path(self, home: str) -> str:
        """Return the LD_LIBRARY_PATH for the interpreter placed in ``home``; empty if it needs
        none."""
        return f"{home}/lib" if self.library else ""

    @property
    def version(self) -> str:
        """Return the name of the interpreter's library directory: ``python3.11``."""
        return f"python{sys.version_info.major}.{sys.version_info.minor}"

    @classmethod
    def current(cls) -> PythonHome:
        """Return the paths of the running interpreter's parts."""
        base = getattr(sys, "_base_executable", sys.executable)
        shared = None
        if sysconfig.get_config_var("Py_ENABLE_SHARED"):
            name = sysconfig.get_config_var("INSTSONAME")
            where = sysconfig.get_config_var("LIBDIR")
            candidate = f"{where}/{name}"
            shared = (
                candidate
                if Path(candidate).is_file() and not candidate.startswith(_LIBRARIES)
                else None
            )
        # Several Pythons of a version may be installed: the loader must find this Python's library.
        return cls(os.path.realpath(base), os.path.realpath(sysconfig.get_path("stdlib")), shared)


@dataclass(frozen=True)
class Layout:
    """The content of a container's file system in addition to the template's."""

    image: str
    programs: frozenset[str]
    """Names of real programs; programs that this machine lacks become shims."""
    shims: frozenset[str]
    paths: tuple[str, ...]
    """Absolute paths of the image's entrypoints."""
    python: bool
    hostname: str
    files: Mapping[str, bytes]
    volumes: Mapping[str, str]
    """The name of each volume's directory in the template, by mount path."""
    powershell: bool = False
    """True if the container has the lab's real PowerShell."""


@dataclass(frozen=True)
class BuiltRoot:
    """Descriptors of a built file system and its namespaces."""

    mount_namespace: int
    uts_namespace: int
    root: int
    listener: socket.socket

    def close(self) -> None:
        """Close the descriptors; the file system ends with its last process."""
        for fd in (self.mount_namespace, self.uts_namespace, self.root):
            os.close(fd)
        self.listener.close()


class Builder:
    """Builds file systems; every method must be called in the thread that :meth:`enter_thread`
    prepared."""

    def __init__(self, powershell: PowerShell | None = None) -> None:
        self.python = PythonHome.current()
        self._powershell = (
            {} if powershell is None else {POWERSHELL: powershell.home, DOTNET: powershell.dotnet}
        )
        self._home: dict[int, int] = {}
        self._proc = -1
        self._template = -1
        self._images: set[str] = set()

    def enter_thread(self) -> None:
        """Give the calling thread its own root and working directory, and store its namespaces."""
        namespaces.unshare(namespaces.CLONE_FS, "file-system attributes of a thread")
        self._proc = os.open("/proc", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        for flag, name in (
            (CLONE_NEWNS, "mnt"),
            (CLONE_NEWUTS, "uts"),
            (CLONE_NEWPID, "pid_for_children"),
        ):
            self._home[flag] = os.open(f"/proc/thread-self/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)
        self._home[namespaces.CLONE_NEWNET] = namespaces.home_netns()

    def go_home(self) -> None:
        """Move the thread back to labd's own namespaces."""
        for flag, fd in self._home.items():
            namespaces.setns(fd, flag)

    def _enter_template(self) -> None:
        if self._template < 0:
            self._build_template()
        else:
            namespaces.setns(self._template, CLONE_NEWNS)

    def _build_template(self) -> None:
        namespaces.unshare(CLONE_NEWNS, "mount namespace of the containers' template")
        namespaces.mount("none", "/", "", MS_REC | MS_PRIVATE)
        template = os.open("/proc/thread-self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
        sources = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in self._bound()}
        names: dict[str, list[str]] = {}
        for name in sorted(_ALL_PROGRAMS):
            if found := shutil.which(_SAME.get(name, name), path=_SYSTEM_PATH):
                names.setdefault(os.path.realpath(found), []).append(name)
        contents = {path: Path(path).read_bytes() for path in names}
        proc = os.open("/proc", os.O_PATH | os.O_CLOEXEC)
        root = "/tmp"
        namespaces.mount("tmpfs", root, "tmpfs", MS_NOSUID | MS_NODEV, "size=256m,mode=755")
        for name in ("proc", "pool", "images", "volumes", "dev", "lib", "python", "old", "new"):
            Path(root, name).mkdir()
        _bind(f"/proc/thread-self/fd/{proc}", f"{root}/proc", read_only=False)
        for path, known_as in names.items():
            _pool(root, known_as, contents[path])
        _write(f"{root}/pool/.shim", program(self.python.library_path(HOME)).encode(), 0o755)
        for device in _DEVICES:
            Path(root, "dev", device).touch()
            _bind(
                f"/proc/thread-self/fd/{sources['/dev/' + device]}",
                f"{root}/dev/{device}",
                read_only=False,
            )
        for path in _LIBRARIES:
            self._library(root, path, sources)
        self._place_python(root, sources)
        for path, source in self._powershell.items():
            Path(root + path).mkdir(parents=True)
            _bind(f"/proc/thread-self/fd/{sources[source]}", root + path)
        namespaces.pivot_root(root, f"{root}/old")
        os.chdir("/")
        namespaces.umount("/old")
        for fd in (*sources.values(), proc):
            os.close(fd)
        self._template = template

    def _bound(self) -> list[str]:
        libraries = [
            path for path in _LIBRARIES if Path(path).is_dir() and not Path(path).is_symlink()
        ]
        python = [
            self.python.binary,
            self.python.stdlib,
            *([self.python.library] if self.python.library else []),
        ]
        powershell = self._powershell.values()
        return [*libraries, *python, *powershell, *(f"/dev/{name}" for name in _DEVICES)]

    @staticmethod
    def _library(root: str, path: str, sources: Mapping[str, int]) -> None:
        target = Path(f"{root}/lib{path}")
        if Path(path).is_symlink():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(Path(path).readlink())
        elif path in sources:
            target.mkdir(parents=True)
            _bind(f"/proc/thread-self/fd/{sources[path]}", str(target))

    def _place_python(self, root: str, sources: Mapping[str, int]) -> None:
        home = Path(root, "python")
        library = home / "lib" / self.python.version
        library.mkdir(parents=True)
        (home / "bin").mkdir()
        (home / "bin" / "python3").touch()
        _bind(f"/proc/thread-self/fd/{sources[self.python.binary]}", f"{home}/bin/python3")
        for name in ("python", self.python.version):
            (home / "bin" / name).symlink_to("python3")
        _bind(f"/proc/thread-self/fd/{sources[self.python.stdlib]}", str(library))
        for name in ("site-packages", "dist-packages"):
            if (library / name).is_dir():  # packages that the user has installed are hidden
                namespaces.mount(
                    "tmpfs",
                    str(library / name),
                    "tmpfs",
                    MS_RDONLY | MS_NOSUID | MS_NODEV,
                    "size=4k",
                )
        if self.python.library:
            target = home / "lib" / Path(self.python.library).name
            target.touch()
            _bind(f"/proc/thread-self/fd/{sources[self.python.library]}", str(target))

    def _image_directory(self, layout: Layout) -> str:
        directory = f"/images/{layout.image.replace('/', '_')}"
        if layout.image not in self._images:
            Path(directory).mkdir()
            for name in layout.programs | layout.shims:
                real = Path("/pool", name)
                source = real if name in layout.programs and real.exists() else Path("/pool/.shim")
                os.link(source, f"{directory}/{name}")
            self._images.add(layout.image)
        return directory

    def build(self, layout: Layout) -> BuiltRoot:
        """Build and enter a new file system. The thread stays in the mount and UTS namespace; its
        children also start in the pid namespace.

        The first process must run :func:`seal` before anything else: a ``/proc`` shows the pid
        namespace of the process that mounts it, and the kernel allows a new ``/proc`` only while an
        old ``/proc`` is visible.
        """
        try:
            self._enter_template()
            binaries = self._image_directory(layout)
            namespaces.unshare(
                CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWPID, "namespaces of a container"
            )
            mount_namespace, uts_namespace = (
                os.open(f"/proc/thread-self/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)
                for name in ("mnt", "uts")
            )
            namespaces.sethostname(layout.hostname)
            self._populate(layout, binaries)
            namespaces.pivot_root("/new", f"/new{_OLD}")
            os.chdir("/")
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            listener.bind(SOCKET_PATH)
            listener.listen(64)
            root = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except BaseException:
            self.go_home()
            raise
        return BuiltRoot(mount_namespace, uts_namespace, root, listener)

    def _populate(self, layout: Layout, binaries: str) -> None:
        new = "/new"
        namespaces.mount("tmpfs", new, "tmpfs", MS_NOSUID | MS_NODEV, _SIZE)
        for name in _DIRECTORIES:
            Path(new + name).mkdir()
        Path(new, "tmp").chmod(0o1777)
        for link, target in (
            ("bin", "usr/bin"),
            ("sbin", "usr/bin"),
            ("usr/sbin", "bin"),
            ("var/run", "../run"),
        ):
            Path(new, link).symlink_to(target)
        _bind(binaries, f"{new}/usr/bin")
        for path in _LIBRARIES:
            source = Path("/lib" + path)
            if source.is_symlink():
                Path(new + path).symlink_to(source.readlink())
            elif source.is_dir():
                Path(new + path).mkdir(exist_ok=True)
                _bind(str(source), new + path)
        _bind("/python", new + HOME)
        if layout.python:
            _bind("/python", f"{new}/usr/local")
        for path in self._powershell if layout.powershell else ():
            Path(new + path).mkdir()
            _bind(path, new + path)
        _bind("/dev", f"{new}/dev")
        for path, volume in layout.volumes.items():
            Path("/volumes", volume).mkdir(exist_ok=True)
            Path(new + path).mkdir(parents=True, exist_ok=True)
            _bind(f"/volumes/{volume}", new + path, read_only=False)
        for path in layout.paths:
            entry = Path(new + path)
            if not entry.exists() and not entry.is_symlink():
                entry.parent.mkdir(parents=True, exist_ok=True)
                entry.symlink_to(f"/usr/bin/{entry.name}")
        for path, data in layout.files.items():
            Path(new + path).parent.mkdir(parents=True, exist_ok=True)
            Path(new + path).write_bytes(data)

    def enter(self, built: BuiltRoot, pid_namespace: int) -> None:
        """Enter a container's namespaces; later children start in its pid namespace."""
        namespaces.setns(built.mount_namespace, CLONE_NEWNS)
        namespaces.setns(built.uts_namespace, CLONE_NEWUTS)
        namespaces.setns(pid_namespace, CLONE_NEWPID)

    def pid_namespace_of(self, pid: int) -> int:
        """Return a descriptor of the pid namespace of a process of labd, whose exit status must not
        have been collected yet."""
        return os.open(f"{pid}/ns/pid", os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._proc)

    def drop_volumes(self, names: Iterable[str]) -> None:
        """Remove the directories of volumes that no container mounts any longer."""
        if self._template < 0:
            return
        try:
            self._enter_template()
            for name in names:
                shutil.rmtree(f"/volumes/{name}", ignore_errors=True)
        finally:
            self.go_home()


def seal() -> None:
    """Mount a container's own ``/proc`` and unmount everything outside, in its first process; raise
    KernelError.

    ``/proc`` is read-only: in a lab started by root, root's processes could otherwise set the
    machine's ``/proc/sys``. If the machine's own ``/proc`` is masked, nobody may mount a new
    ``/proc``: then the containers have no ``/proc``.
    """
    with contextlib.suppress(KernelError):
        namespaces.mount("proc", "/proc", "proc", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC)
    namespaces.umount(_OLD)
    Path(_OLD).rmdir()


_OLD = "/.old"
_DIRECTORIES = (
    _OLD, "/dev", "/etc", "/home", "/proc", "/root", "/run", "/sys", "/tmp", "/usr", "/usr/bin", "/usr/libexec",
    "/usr/libexec/lab", "/usr/local", "/usr/share", "/var", "/var/log", "/var/tmp", "/mnt", "/opt", "/srv",
)  # fmt: skip

_ALL_PROGRAMS: set[str] = set()


def offer(programs: Iterable[str]) -> None:
    """Add programs that images have. Must be called before the first container is built."""
    _ALL_PROGRAMS.update(programs)


def _pool(root: str, names: list[str], content: bytes) -> None:
    """Write a file once and link it under all its names (coreutils may be a single program)."""
    first, *others = (Path(root, "pool", name) for name in names)
    _write(str(first), content, 0o755)
    for other in others:
        os.link(first, other)


def _write(path: str, content: bytes, mode: int) -> None:
    Path(path).write_bytes(content)
    Path(path).chmod(mode)


def _checked(what: str, call: Callable[[], int]) -> None:
    if call() != 0:
        raise KernelError(what, ctypes.get_errno())


def _bind(source: str, target: str, *, read_only: bool = True) -> None:
    """Bind a directory with everything mounted below it.

    ``read_only`` also applies to everything mounted below, and forbids device files except in
    ``/dev``.
    """
    namespaces.mount(source, target, "", MS_BIND | MS_REC)
    if read_only and not target.endswith("/dev"):
        attributes = struct.pack("QQQQ", _ATTR_RDONLY | _ATTR_NOSUID | _ATTR_NODEV, 0, 0, 0)
        _checked(
            f"make {target} read-only (mount_setattr, Linux 5.12)",
            lambda: _libc.syscall(
                _NR_MOUNT_SETATTR, -100, target.encode(), _AT_RECURSIVE, attributes, len(attributes)
            ),
        )


class RootFiles:
    """The files of a built file system; implements ``applet.Files``. Every path, including symbolic
    links, is resolved inside it."""

    def __init__(self, root: int, working_dir: str) -> None:
        self._root = root
        self._working_dir = working_dir or "/"

    def _open(self, path: str, flags: int) -> int:
        path = os.path.join(self._working_dir, path)  # noqa: PTH118 - a path in another file system
        how = struct.pack(
            "QQQ",
            flags | os.O_CLOEXEC | os.O_NONBLOCK,
            0o644 if flags & os.O_CREAT else 0,
            _RESOLVE_IN_ROOT,
        )
        fd: int = _libc.syscall(_NR_OPENAT2, self._root, path.encode(), how, len(how))
        if fd < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), path)
        return fd

    def read(self, path: str) -> bytes:
        with open(self._open(path, os.O_RDONLY), "rb") as file:  # noqa: PTH123 - a descriptor
            return file.read()

    def write(self, path: str, data: bytes) -> None:
        """Create or replace a file; its directory must exist."""
        with open(self._open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as file:  # noqa: PTH123 - a descriptor
            file.write(data)


class WindowsFiles(RootFiles):
    """The files of a Windows container with its own file system, addressed by Windows paths;
    implements ``applet.Files``."""

    def __init__(self, root: int, working_dir: str) -> None:
        super().__init__(root, "/")
        self._windows_dir = working_dir

    def _open(self, path: str, flags: int) -> int:
        return super()._open(place(path, self._windows_dir), flags)
