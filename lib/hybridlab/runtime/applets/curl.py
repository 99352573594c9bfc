"""curl for plain http: the options that connectivity checks use; messages and exit statuses are curl's."""

from __future__ import annotations

import asyncio
import errno
import os
import time
from dataclasses import dataclass, field

from hybridlab.runtime.applet import Process
from hybridlab.runtime.applets import dns, http
from hybridlab.runtime.applets.console import err, not_emulated
from hybridlab.runtime.applets.refusals import heard_late

_VALUE_FLAGS = {"-m", "--max-time", "--connect-timeout", "-o", "--output", "-w", "--write-out", "-X", "--request", "-H",
                "--header", "-d", "--data", "-A", "--user-agent", "--url"}  # fmt: skip
_SWITCHES = {"-s", "--silent", "-S", "--show-error", "-f", "--fail", "-i", "--include", "-I", "--head", "-4", "--ipv4",
             "-k", "--insecure", "-L", "--location", "-v", "--verbose", "-N"}  # fmt: skip


@dataclass
class _Options:
    switches: set[str] = field(default_factory=set)
    values: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    urls: list[str] = field(default_factory=list)

    def has(self, *names: str) -> bool:
        return any(name in self.switches for name in names)

    def value(self, *names: str) -> str:
        return next((self.values[name] for name in names if name in self.values), "")


class _Unknown(Exception):
    """An option the lab does not know."""


def _parse(words: tuple[str, ...]) -> _Options:
    options, queue = _Options(), list(words)
    while queue:
        word = queue.pop(0)
        if word.startswith("--") or (len(word) == 2 and word[0] == "-"):
            names = [word]
        elif word.startswith("-") and len(word) > 2:
            names = ["-" + letter for letter in word[1:]]
            for place, name in enumerate(names):
                if name in _VALUE_FLAGS:
                    if word[place + 2 :]:
                        queue.insert(0, word[place + 2 :])
                    names = names[: place + 1]
                    break
        else:
            options.urls.append(word)
            continue
        for name in names:
            if name in _SWITCHES:
                options.switches.add(name)
            elif name in _VALUE_FLAGS and queue:
                value = queue.pop(0)
                if name in ("-H", "--header"):
                    key, _, text = value.partition(":")
                    options.headers[key.strip()] = text.strip()
                elif name == "--url":
                    options.urls.append(value)
                else:
                    options.values[name] = value
            else:
                raise _Unknown(name)
    return options


class _Failed(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


async def curl(process: Process) -> int:
    """Run one curl with one URL."""
    try:
        options = _parse(process.argv[1:])
    except _Unknown as unknown:
        return await not_emulated(process, f"curl {unknown}")
    if len(options.urls) != 1 or options.has("-L", "--location", "-v", "--verbose"):
        if not options.urls:
            await err(process, "curl: no URL specified!")
            return 2
        return await not_emulated(process, " ".join(process.argv))
    url = http.Url.parse(options.urls[0])
    if url.scheme != "http":
        return await not_emulated(process, f"curl {url.scheme}")
    start = time.perf_counter()
    answer = None
    try:
        answer = await _fetch(process, options, url, start)
        if options.has("-f", "--fail") and answer.status >= 400:
            raise _Failed(22, f"The requested URL returned error: {answer.status}")
        status = 0
    except _Failed as failed:
        status = failed.status
        if not options.has("-s", "--silent") or options.has("-S", "--show-error"):
            await err(process, f"curl: ({status}) {failed}")
    if answer is not None and status == 0:
        await _show(process, options, answer)
    if written := options.value("-w", "--write-out"):
        code = f"{answer.status:03}" if answer is not None else "000"
        text = written.replace("%{http_code}", code).replace("%{response_code}", code).replace("\\n", "\n")
        await process.stdout.write(text.encode())
    return status


async def _fetch(process: Process, options: _Options, url: http.Url, start: float) -> http.Response:
    def spent() -> int:
        return round((time.perf_counter() - start) * 1000)

    total = float(options.value("-m", "--max-time") or 0)
    connect = float(options.value("--connect-timeout") or 0) or 300.0
    method = options.value("-X", "--request") or ("HEAD" if options.has("-I", "--head") else "GET")
    data = options.value("-d", "--data")
    headers = {"User-Agent": options.value("-A", "--user-agent") or "curl/8.9.1", "Accept": "*/*", **options.headers}
    try:
        address = (await process.net.resolve(url.host, timeout=total or 10.0))[0]
    except dns.NameNotFound:
        raise _Failed(6, f"Could not resolve host: {url.host}") from None
    except dns.ResolverSilent:
        raise _Failed(28 if total else 6, f"Resolving timed out after {spent()} milliseconds") from None
    limit = min(connect, total) if total else connect
    try:
        async with asyncio.timeout(limit):
            connection = await heard_late(http.connect(process.net, address, url.port), process.settings)
    except TimeoutError:
        raise _Failed(28, f"Connection timed out after {spent()} milliseconds") from None
    except OSError as error:
        why = {errno.ECONNREFUSED: "Connection refused", errno.EHOSTUNREACH: "No route to host"}
        reason = why.get(error.errno or 0, os.strerror(error.errno or 0))
        raise _Failed(7, f"Failed to connect to {url.host} port {url.port} after {spent()} ms: {reason}") from None
    try:
        async with asyncio.timeout(max(total - spent() / 1000, 0.001) if total else None):
            return await http.exchange(
                connection, url, method="POST" if data else method, headers=headers, body=data.encode()
            )
    except TimeoutError:
        raise _Failed(28, f"Operation timed out after {spent()} milliseconds with 0 bytes received") from None
    except http.BadAnswer:
        raise _Failed(52, "Empty reply from server") from None
    except OSError:
        raise _Failed(56, "Recv failure: Connection reset by peer") from None


async def _show(process: Process, options: _Options, answer: http.Response) -> None:
    text = answer.body
    if options.has("-i", "--include", "-I", "--head"):
        top = [f"{answer.version} {answer.status} {answer.reason}", *(f"{k}: {v}" for k, v in answer.headers), "", ""]
        text = "\r\n".join(top).encode() + text
    target = options.value("-o", "--output")
    if not target:
        await process.stdout.write(text)
    elif target.lower() not in ("/dev/null", "nul"):
        process.files.write(target, text)
