"""Invoke-WebRequest and Invoke-RestMethod: one connection per request, with the messages of each PowerShell."""

from __future__ import annotations

import asyncio
import errno
import json
import re

from hybridlab.runtime.applets import dns, http
from hybridlab.runtime.applets.refusals import heard_late
from hybridlab.windows.powershell.cmdlets import from_json, only, parameter
from hybridlab.windows.powershell.faults import Fault
from hybridlab.windows.powershell.interpreter import Call, Interpreter, Library
from hybridlab.windows.powershell.objects import HashTable, NetObject, enumerate_value, to_number, to_text, truth
from hybridlab.windows.powershell.syntax import NotEmulated

_RESOLVE_SECONDS = 15.0
"""-TimeoutSec does not bound the resolver: "it can take 15 seconds or more" (Invoke-WebRequest's reference, 5.1)."""
_VIEW_LENGTH = 200
"""Characters of a body that the list view shows."""
_SEVEN_REFUSED = "No connection could be made because the target machine actively refused it."
_SEVEN_SILENT = (
    "A connection attempt failed because the connected party did not properly respond after a period of time."
)
_AGENT = "Mozilla/5.0 (Windows NT; Windows NT 10.0; en-US) WindowsPowerShell/5.1.20348.2760"
_PARAMETERS = (
    *("uri", "usebasicparsing", "timeoutsec", "disablekeepalive", "method", "headers", "body", "useragent"),
    *("contenttype", "outfile", "proxy", "maximumredirection"),
)


class _Command:
    """One request of one of the two cmdlets."""

    def __init__(self, shell: Interpreter, call: Call, name: str) -> None:
        self.shell = shell
        self.call = call
        self.name = name
        self.class_name = name.replace("-", "") + "Command"
        only(call, *_PARAMETERS, positions=1)
        for unsupported in ("proxy", "maximumredirection"):
            if parameter(call, unsupported) is not None:
                raise NotEmulated(f"{name} -{unsupported}")
        self.seconds = float(to_number(parameter(call, "timeoutsec", default=0))) or None

    def fault(self, message: str, seven: str | None = None) -> Fault:
        return Fault(
            (seven or message) if self.shell.seven else message,
            f"InvalidOperation: (System.Net.HttpWebRequest:HttpWebRequest) [{self.name}], WebException",
            f"WebCmdletWebResponseException,Microsoft.PowerShell.Commands.{self.class_name}",
            source=self.name,
            at=self.call.node,
            kind="System.Net.WebException",
        )

    async def send(self) -> http.Response:
        text = to_text(parameter(self.call, "uri", position=0))
        try:
            url = http.Url.parse(text)
        except ValueError:
            raise self.fault("Invalid URI: The hostname could not be parsed.") from None
        if url.scheme != "http":
            raise NotEmulated(f"{self.name} with {url.scheme}")
        method = to_text(parameter(self.call, "method", default="GET")).upper()
        headers = {"User-Agent": to_text(parameter(self.call, "useragent", default=_AGENT))}
        given = parameter(self.call, "headers")
        if isinstance(given, HashTable):
            headers |= {to_text(key): to_text(value) for key, value in given.items()}
        headers["Connection"] = "close" if truth(parameter(self.call, "disablekeepalive")) else "Keep-Alive"
        body = to_text(parameter(self.call, "body", default="")).encode()
        if body:
            kind = parameter(self.call, "contenttype", default="application/x-www-form-urlencoded")
            headers["Content-Type"] = to_text(kind)
        response = await self._exchange(url, method, headers, body)
        if response.status >= 400:
            raise self._refused(response)
        if response.status in (301, 302, 303, 307, 308):
            raise NotEmulated(f"{self.name} following a redirect")
        return response

    async def _exchange(self, url: http.Url, method: str, headers: dict[str, str], body: bytes) -> http.Response:
        net, settings = self.shell.process.net, self.shell.process.settings
        try:
            addresses = await net.resolve(url.host, timeout=_RESOLVE_SECONDS)
        except (dns.NameNotFound, dns.ResolverSilent):
            raise self.fault(f"The remote name could not be resolved: '{url.host}'", "No such host is known.") from None
        try:
            async with asyncio.timeout(self.seconds):
                asking = http.request(net, url, addresses[0], method=method, headers=headers, body=body)
                return await heard_late(asking, settings)
        except http.ConnectFailed as error:
            seven = _SEVEN_REFUSED if error.errno == errno.ECONNREFUSED else _SEVEN_SILENT
            raise self.fault("Unable to connect to the remote server", seven) from None
        except TimeoutError:
            seconds = f"{self.seconds:g}" if self.seconds else ""
            seven = f"The request was canceled due to the configured HttpClient.Timeout of {seconds} seconds elapsing."
            raise self.fault("The operation has timed out.", seven) from None
        except http.BadAnswer:
            words = "The underlying connection was closed: The connection was closed unexpectedly."
            raise self.fault(words, "An error occurred while sending the request.") from None
        except OSError:
            words = "The underlying connection was closed: An unexpected error occurred on a receive."
            raise self.fault(words, "An error occurred while sending the request.") from None

    def _refused(self, response: http.Response) -> Fault:
        """A status of 400 or more is an error; its text is the body's, where there is one."""
        plain = re.sub(r"<[^>]*>", "", response.body.decode("utf-8", "replace")).strip()
        words = f"The remote server returned an error: ({response.status}) {response.reason}."
        return self.fault(
            plain or words, f"Response status code does not indicate success: {response.status} ({response.reason})."
        )


async def invoke_web_request(shell: Interpreter, call: Call) -> list[object]:
    """Invoke-WebRequest; 5.1 without -UseBasicParsing fails in Server Core, which has no Internet Explorer."""
    command = _Command(shell, call, "Invoke-WebRequest")
    response = await command.send()
    if not shell.seven and not truth(call.named.get("usebasicparsing")):
        raise Fault(
            "The response content cannot be parsed because the Internet Explorer engine is not available, or "
            "Internet Explorer's first-launch configuration is not complete. Specify the UseBasicParsing parameter and "
            "try again.",
            "NotImplemented: (:) [Invoke-WebRequest], NotSupportedException",
            "WebCmdletIEDomNotSupportedException,Microsoft.PowerShell.Commands.InvokeWebRequestCommand",
            source="Invoke-WebRequest",
            at=call.node,
            kind="System.NotSupportedException",
        )
    path = parameter(call, "outfile")
    if path is not None:
        shell.process.files.write(to_text(path), response.body)
        return []
    return [_response(response)]


def _response(response: http.Response) -> NetObject:
    kind = response.header("Content-Type")
    content: object = response.body.decode("utf-8", "replace") if _is_text(kind) else list(response.body)
    headers = HashTable()
    for key, text in sorted(response.headers):
        headers.set(key, text)
    top = f"{response.version} {response.status} {response.reason}\r\n"
    raw = top + "".join(f"{name}: {value}\r\n" for name, value in response.headers) + "\r\n"
    raw += response.body.decode("utf-8", "replace")
    properties = {
        "StatusCode": response.status,
        "StatusDescription": response.reason,
        "Content": content,
        "RawContent": raw,
        "Forms": None,
        "Headers": headers,
        "Images": [],
        "InputFields": [],
        "Links": [],
        "ParsedHtml": None,
        "RawContentLength": len(response.body),
    }
    kind = "Microsoft.PowerShell.Commands.BasicHtmlWebResponseObject"
    return _WebResponse(kind, properties, shown=tuple(properties))


class _WebResponse(NetObject):
    """Its list view shows the beginning of the body only."""

    def view(self, name: str) -> object:
        value = self.get(name)
        if name in ("Content", "RawContent") and isinstance(value, str) and len(value) > _VIEW_LENGTH:
            return value[:_VIEW_LENGTH] + "..."
        return value


def _is_text(content_type: str) -> bool:
    kind = content_type.partition(";")[0].strip().lower()
    return (
        not kind
        or kind.startswith("text/")
        or kind in ("application/json", "application/xml", "application/javascript")
    )


async def invoke_rest_method(shell: Interpreter, call: Call) -> list[object]:
    """The body: JSON as objects, anything else as text."""
    response = await _Command(shell, call, "Invoke-RestMethod").send()
    text = response.body.decode("utf-8", "replace")
    if "json" in response.header("Content-Type").lower():
        try:
            return enumerate_value(from_json(json.loads(text)))
        except json.JSONDecodeError:
            return [text]
    return [text]


def add_to(library: Library) -> None:
    """Register them with their aliases; ``curl`` is Invoke-WebRequest in 5.1."""
    library.cmdlets |= {"invoke-webrequest": invoke_web_request, "invoke-restmethod": invoke_rest_method}
    library.aliases |= {
        "iwr": "invoke-webrequest",
        "wget": "invoke-webrequest",
        "curl": "invoke-webrequest",
        "irm": "invoke-restmethod",
    }
