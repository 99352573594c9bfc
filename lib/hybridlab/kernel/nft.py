# SPDX-License-Identifier: Apache-2.0
"""nftables in process: libnftables by ctypes, one context per network namespace.

A context's netlink socket belongs to the namespace in which the thread is when the context is
created, so that running commands later needs no setns. A chain of ten rules takes 0.3 ms, against
16 ms for the command line tool. The module reads and returns text; it does not interpret the rules.
"""

import contextlib
import ctypes
import errno
import os
import socket
from functools import cache
from pathlib import Path

from hybridlab.kernel.libnftables import LIBRARY, NftMissing, load

_OUTPUT_STATELESS = 1 << 2
_NETLINK_NETFILTER = 12
_SNDBUF = 8 << 20
"""The requested size of the send buffer, in bytes. Without privileges in the first user namespace,
the kernel grants at most net.core.wmem_max."""


FD_SETSIZE = 1_024
"""libnftables waits for its socket by select(), which aborts the process for a descriptor of this number or above."""

_kept: list[int] = []


class NftError(Exception):
    """nftables refused a command; the message has nftables' own words and the refused line."""


class NftTooLong(NftError):
    """The transaction does not fit in the socket's send buffer (about 1,100 rules at the usual limit): split it."""


@cache
def _library() -> ctypes.CDLL:
    library = load()
    library.nft_ctx_new.restype = ctypes.c_void_p
    library.nft_ctx_new.argtypes = [ctypes.c_uint32]
    library.nft_ctx_free.argtypes = [ctypes.c_void_p]
    library.nft_ctx_free.restype = None
    library.nft_run_cmd_from_buffer.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
    for name in ("nft_ctx_buffer_output", "nft_ctx_buffer_error"):
        getattr(library, name).argtypes = [ctypes.c_void_p]
    for name in ("nft_ctx_get_output_buffer", "nft_ctx_get_error_buffer"):
        getattr(library, name).argtypes = [ctypes.c_void_p]
        getattr(library, name).restype = ctypes.c_char_p
    library.nft_ctx_set_dry_run.argtypes = [ctypes.c_void_p, ctypes.c_bool]
    library.nft_ctx_set_dry_run.restype = None
    library.nft_ctx_output_set_flags.argtypes = [ctypes.c_void_p, ctypes.c_uint]
    library.nft_ctx_output_set_flags.restype = None
    return library


def _sockets() -> dict[str, int]:
    """Map the inodes of this process's sockets to their descriptors."""
    found = {}
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # closed by another thread meanwhile
            link = str(entry.readlink())
            if link.startswith("socket:"):
                found[link] = int(entry.name)
    return found


def keep_numbers(contexts: int) -> None:
    """Reserve descriptors below :data:`FD_SETSIZE` for ``contexts`` contexts; call this before
    anything else is opened.

    A few more are reserved, since another thread may take a number after its release, before the
    context takes it.
    """
    for _ in range(contexts + 16):
        _kept.insert(0, os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))


class Nft:
    """A libnftables context, bound to the network namespace of the thread that creates it.

    Not safe for two threads at once.
    """

    def __init__(self, where: str) -> None:
        self.where = where
        """The name of the namespace, for messages."""
        self._lib = _library()
        self._context: int | None = self._open()
        self._lib.nft_ctx_buffer_output(self._context)
        self._lib.nft_ctx_buffer_error(self._context)

    def _open(self) -> int:
        """Return a context whose socket has a descriptor number for which libnftables can wait
        (:func:`keep_numbers`)."""
        while True:
            last = not _kept
            if not last:
                os.close(_kept.pop())
            before = _sockets().keys()
            context = self._lib.nft_ctx_new(0)
            if not context:
                raise NftMissing(f"{self.where}: nft_ctx_new returned no context")
            if (
                self._enlarge_buffers(
                    [fd for inode, fd in _sockets().items() if inode not in before]
                )
                < FD_SETSIZE
            ):
                return int(context)
            self._lib.nft_ctx_free(context)
            if last:
                raise NftError(
                    f"nftables in {self.where}: every descriptor below {FD_SETSIZE:,} is in use"
                )

    def _enlarge_buffers(self, opened: list[int]) -> int:
        """Enlarge the send buffer of the context's socket as far as the machine allows, and keep
        pods' processes from inheriting the socket.

        Return the socket's descriptor number. The context does not show its socket, therefore the
        socket is searched among ``opened``; other threads may open sockets at the same time, but no
        netfilter sockets. The library's own attempt to enlarge the buffer (SO_SNDBUFFORCE) is
        refused in a user namespace.
        """
        for fd in opened:
            with contextlib.suppress(OSError):  # another thread's descriptor, closed meanwhile
                netlink = socket.socket(fileno=fd)
                try:
                    if (netlink.family, netlink.proto) == (socket.AF_NETLINK, _NETLINK_NETFILTER):
                        netlink.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SNDBUF)
                        netlink.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SNDBUF)
                        netlink.set_inheritable(False)
                        return fd
                finally:
                    netlink.detach()
        raise NftMissing(f"{self.where}: {LIBRARY} opened no netlink socket for its context")

    def run(self, commands: str) -> str:
        """Run commands as one transaction and return their output. Raise :class:`NftError` with
        the refused text.
        """
        failed = self._lib.nft_run_cmd_from_buffer(self._context, commands.encode())
        output = self._lib.nft_ctx_get_output_buffer(self._context) or b""
        words = (
            (self._lib.nft_ctx_get_error_buffer(self._context) or b"")
            .decode(errors="replace")
            .strip()
        )
        if not failed:
            return str(output.decode())
        if os.strerror(errno.EMSGSIZE) in words:
            raise NftTooLong(f"nftables in {self.where}: {words}")
        raise NftError(f"nftables in {self.where}: {self._offending(commands, words)}")

    def _offending(self, commands: str, words: str) -> str:
        """Return the library's message with the line that it refers to.

        libnftables shows the first line of a buffer, not the faulty line. Therefore each line is
        tried again as a dry run.
        """
        reason = words.splitlines()[0] if words else "no reason given"
        self._lib.nft_ctx_set_dry_run(self._context, True)
        try:
            for line in commands.splitlines():
                if line.strip() and self._lib.nft_run_cmd_from_buffer(self._context, line.encode()):
                    again = (self._lib.nft_ctx_get_error_buffer(self._context) or b"").decode(
                        errors="replace"
                    )
                    if again.startswith(reason):
                        return f"{reason} in: {line.strip()}"
                self._lib.nft_ctx_get_output_buffer(self._context)
        finally:
            self._lib.nft_ctx_set_dry_run(self._context, False)
        return words

    def list_ruleset(self) -> str:
        """Return every table of this namespace as nft text, without counters."""
        self._lib.nft_ctx_output_set_flags(self._context, _OUTPUT_STATELESS)
        try:
            return self.run("list ruleset")
        finally:
            self._lib.nft_ctx_output_set_flags(self._context, 0)

    def close(self) -> None:
        if self._context:
            self._lib.nft_ctx_free(self._context)
            self._context = None
