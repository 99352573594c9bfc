# SPDX-License-Identifier: Apache-2.0
"""busybox ``wget [-q] [-O FILE] [-T SECONDS] URL`` for plain http, as ``make defconfig`` builds it (``-T`` exists)."""

import asyncio
import getopt
import os

from hybridlab.runtime.applet import Process
from hybridlab.runtime.applets import dns, http
from hybridlab.runtime.applets.console import err, not_emulated

_DEFAULT_TIMEOUT = 900.0


class _Failed(Exception):
    """The command failed; the message has no prefix ``wget:``."""


async def wget(process: Process) -> int:
    """Run one ``wget`` command."""
    try:
        flags, words = getopt.gnu_getopt(list(process.argv[1:]), "qO:T:")
        given = dict(flags)
        timeout = float(given.get("-T", _DEFAULT_TIMEOUT)) or None
    except (getopt.GetoptError, ValueError) as error:
        return await not_emulated(process, f"wget: {error}")
    if len(words) != 1:
        return await not_emulated(process, "wget with no URL or several URLs")
    if words[0].startswith(("https://", "ftp://")):
        return await not_emulated(process, f"wget {words[0].split(':')[0]}")
    try:
        await _download(process, words[0], given, timeout)
    except _Failed as error:
        await err(process, f"wget: {error}")
        return 1
    return 0


async def _download(
    process: Process, text: str, given: dict[str, str], limit: float | None
) -> None:
    quiet = "-q" in given
    try:
        url = http.Url.parse(text)
    except ValueError:
        raise _Failed(f"not an http or ftp url: {text}") from None
    response = await _request(process, url, given, limit)
    if response.status in (301, 302, 303, 307, 308) and response.header("Location"):
        raise _Failed("not emulated: following a redirect")
    if not 200 <= response.status < 300:
        raise _Failed(
            f"server returned error: {response.version} {response.status} {response.reason}".rstrip()
        )
    name = given.get("-O") or url.target.partition("?")[0].rsplit("/", 1)[-1] or "index.html"
    if name == "-":
        if not quiet:
            await err(process, "writing to stdout")
        await process.stdout.write(response.body)
    else:
        if not quiet:
            await err(process, f"saving to '{name}'")
        if name != "/dev/null":
            process.files.write(name, response.body)
    if not quiet:
        bar = f"{name[:20]:<20} 100% |{'*' * 32}| {len(response.body):>5}  0:00:00 ETA"
        await err(process, bar, "written to stdout" if name == "-" else f"'{name}' saved")


async def _request(
    process: Process, url: http.Url, given: dict[str, str], limit: float | None
) -> http.Response:
    try:
        address = (await process.net.resolve(url.host))[0]
    except (dns.NameNotFound, dns.ResolverSilent):
        raise _Failed(f"bad address '{url.host}'") from None
    if "-q" not in given:
        await err(process, f"Connecting to {url.host} ({address}:{url.port})")
    headers = {"User-Agent": "Wget", "Connection": "close"}
    try:
        async with asyncio.timeout(limit):
            return await http.request(process.net, url, address, headers=headers)
    except http.ConnectFailed as error:
        raise _Failed(
            f"can't connect to remote host ({address}): {os.strerror(error.errno or 0)}"
        ) from None
    except TimeoutError:
        raise _Failed("download timed out") from None
    except http.BadAnswer:
        raise _Failed("error getting response") from None
    except OSError as error:
        raise _Failed(f"error getting response: {os.strerror(error.errno or 0)}") from None
