# SPDX-License-Identifier: Apache-2.0
"""Invoke-WebRequest: a connection for each request, and PowerShell's messages."""

import asyncio
import re

from hybridlab.powershell.binding import Call
from hybridlab.powershell.faults import Fault
from hybridlab.powershell.objects import HashTable, NetObject
from hybridlab.powershell.operators import to_int
from hybridlab.powershell.shell import Library, Shell
from hybridlab.powershell.stages import once
from hybridlab.powershell.syntax import NotEmulated
from hybridlab.runtime.applets import dns, http
from hybridlab.runtime.applets.refusals import heard_late

_RESOLVE_SECONDS = 15.0
"""-TimeoutSec does not limit the name resolution: "it can take 15 seconds or more"
(Invoke-WebRequest's reference, 5.1)."""
_VIEW_LENGTH = 200
"""The number of characters of a body that the list view shows."""
_AGENT = "Mozilla/5.0 (Windows NT; Windows NT 10.0; en-US) WindowsPowerShell/5.1.20348.2760"


def _fault(call: Call, message: str) -> Fault:
    return Fault(
        message,
        f"InvalidOperation: (System.Net.HttpWebRequest:HttpWebRequest) [{call.name}], WebException",
        "WebCmdletWebResponseException,Microsoft.PowerShell.Commands.InvokeWebRequestCommand",
        source=call.typed,
        at=call.node,
        kind="System.Net.WebException",
    )


async def _exchange(shell: Shell, call: Call, url: http.Url, seconds: int) -> http.Response:
    """Send a request and return its response. Without ``seconds`` there is no limit."""
    connection = "close" if call.flag("disablekeepalive") else "Keep-Alive"
    headers = {"User-Agent": _AGENT, "Connection": connection}
    net = shell.process.net
    settings = shell.process.settings
    try:
        addresses = await net.resolve(url.host, timeout=_RESOLVE_SECONDS)
    except (dns.NameNotFound, dns.ResolverSilent):
        raise _fault(call, f"The remote name could not be resolved: '{url.host}'") from None
    try:
        async with asyncio.timeout(seconds or None):
            return await heard_late(http.request(net, url, addresses[0], headers=headers), settings)
    except http.ConnectFailed:
        raise _fault(call, "Unable to connect to the remote server") from None
    except TimeoutError:
        raise _fault(call, "The operation has timed out.") from None
    except (http.BadAnswer, OSError) as error:
        words = "An unexpected error occurred on a receive." if isinstance(error, OSError) else ""
        words = words or "The connection was closed unexpectedly."
        raise _fault(call, f"The underlying connection was closed: {words}") from None


async def invoke_web_request(shell: Shell, call: Call) -> list[object]:
    """Run Invoke-WebRequest.

    Without -UseBasicParsing it fails on Server Core, which has no Internet Explorer.
    """
    seconds = to_int(call.get("timeoutsec"))
    try:
        url = http.Url.parse(call.text("uri"))
    except ValueError:
        raise NotEmulated(f"{call.name} of the URI '{call.text('uri')}'") from None
    if url.scheme != "http" or seconds < 0:
        raise NotEmulated(f"{call.name} with {url.scheme} for {seconds} s")
    response = await _exchange(shell, call, url, seconds)
    if response.status >= 400:
        fault = _fault(
            call, f"The remote server returned an error: ({response.status}) {response.reason}."
        )
        fault.details = re.sub(r"<[^>]*>", "", response.body.decode("utf-8", "replace")).strip()
        raise fault
    if response.status in (301, 302, 303, 307, 308):
        raise NotEmulated(f"{call.name} following a redirect")
    if not call.flag("usebasicparsing"):
        raise Fault(
            "The response content cannot be parsed because the Internet Explorer engine is not available, or "
            "Internet Explorer's first-launch configuration is not complete. Specify the UseBasicParsing parameter and "
            "try again.",
            "NotImplemented: (:) [Invoke-WebRequest], NotSupportedException",
            "WebCmdletIEDomNotSupportedException,Microsoft.PowerShell.Commands.InvokeWebRequestCommand",
            source=call.typed,
            at=call.node,
            kind="System.NotSupportedException",
        )
    return [_response(response)]


def _headers_of(response: http.Response) -> HashTable:
    table = HashTable()
    for key, text in sorted(response.headers):
        table.set(key, text)
    return table


def _decoded(response: http.Response) -> str:
    charset = re.search(r"charset=\"?([\w-]+)", response.header("Content-Type"), re.IGNORECASE)
    name = charset[1] if charset else "iso-8859-1"
    try:
        return response.body.decode(name, "replace")
    except LookupError:
        raise NotEmulated(f"a page in {name}") from None


def _response(response: http.Response) -> NetObject:
    text = _is_text(response.header("Content-Type"))
    body = _decoded(response) if text else response.body.decode("iso-8859-1")
    top = f"{response.version} {response.status} {response.reason}\r\n"
    raw = top + "".join(f"{name}: {value}\r\n" for name, value in response.headers) + "\r\n" + body
    properties: dict[str, object] = {
        "StatusCode": response.status,
        "StatusDescription": response.reason,
        "Content": body if text else response.body,
        "RawContent": raw,
        "Headers": _headers_of(response),
        "RawContentLength": len(response.body),
    }
    if not text:
        kind = "WebResponseObject"
        names = tuple(properties)
    else:
        kind = "BasicHtmlWebResponseObject"
        names = (
            *list(properties)[:4],
            "Forms",
            "Headers",
            "Images",
            "InputFields",
            "Links",
            "ParsedHtml",
        )
        names = (*names, "RawContentLength")
        elements = {"Images": "img", "InputFields": "input", "Links": "a"}
        properties |= {"Forms": None, "ParsedHtml": None}
        properties |= {name: _elements(body, name, tag) for name, tag in elements.items()}
    return _WebResponse(f"Microsoft.PowerShell.Commands.{kind}", properties, shown=names)


def _elements(body: str, name: str, tag: str) -> object:
    """Return the empty list of a page's elements. Raise NotEmulated if the page has such
    elements."""
    if not re.search(rf"<{tag}\b", body, re.IGNORECASE):
        return []

    def refuse() -> object:
        raise NotEmulated(f"property {name} of a page with <{tag}>")

    return refuse


class _WebResponse(NetObject):
    """The response of a web request. Its list view shows only the beginning of the body."""

    def view(self, name: str) -> object:
        value = self.get(name)
        if (
            name in ("Content", "RawContent")
            and isinstance(value, str)
            and len(value) > _VIEW_LENGTH
        ):
            return value[:_VIEW_LENGTH] + "..."
        return value


def _is_text(content_type: str) -> bool:
    kind = content_type.partition(";")[0].strip().lower()
    return kind.startswith("text/") or kind in (
        "application/json",
        "application/xml",
        "application/javascript",
    )


def add_to(library: Library) -> None:
    """Register the cmdlet with its aliases."""
    parameters = "Uri@0 UseBasicParsing? TimeoutSec:int DisableKeepAlive?"
    library.add("Invoke-WebRequest", parameters, once(invoke_web_request), "iwr", "wget", "curl")
