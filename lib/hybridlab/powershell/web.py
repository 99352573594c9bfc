"""Invoke-WebRequest: one connection per request, with PowerShell's messages."""

import asyncio
import re

from hybridlab.powershell.binding import Call
from hybridlab.powershell.conversion import to_int
from hybridlab.powershell.faults import Fault
from hybridlab.powershell.objects import HashTable, NetObject, to_text
from hybridlab.powershell.shell import Library, Shell
from hybridlab.powershell.stages import once
from hybridlab.powershell.syntax import NotEmulated
from hybridlab.runtime.applets import dns, http
from hybridlab.runtime.applets.refusals import heard_late

_RESOLVE_SECONDS = 15.0
"""-TimeoutSec does not bound the resolver: "it can take 15 seconds or more" (Invoke-WebRequest's reference, 5.1)."""
_VIEW_LENGTH = 200
"""Characters of a body that the list view shows."""
_AGENT = "Mozilla/5.0 (Windows NT; Windows NT 10.0; en-US) WindowsPowerShell/5.1.20348.2760"
_PARAMETERS = (
    "Uri@0 UseBasicParsing? TimeoutSec:int DisableKeepAlive? -Method -Headers -Body -UserAgent -ContentType "
    "-WebSession -SessionVariable=SV -Credential -UseDefaultCredentials? -CertificateThumbprint -Certificate "
    "-MaximumRedirection -Proxy -ProxyCredential -ProxyUseDefaultCredentials? -TransferEncoding -InFile -OutFile "
    "-PassThru?"
)


class _Command:
    """One request."""

    def __init__(self, shell: Shell, call: Call) -> None:
        self.shell = shell
        self.call = call
        self.class_name = call.name.replace("-", "") + "Command"
        self.seconds = float(to_int(call.get("timeoutsec", 0))) or None
        if self.seconds is not None and self.seconds < 0:
            raise NotEmulated(f"{call.name} -TimeoutSec {self.seconds:g}")

    def fault(self, message: str) -> Fault:
        return Fault(
            message,
            f"InvalidOperation: (System.Net.HttpWebRequest:HttpWebRequest) [{self.call.name}], WebException",
            f"WebCmdletWebResponseException,Microsoft.PowerShell.Commands.{self.class_name}",
            source=self.call.typed,
            at=self.call.node,
            kind="System.Net.WebException",
        )

    async def send(self) -> http.Response:
        call = self.call
        if not call.has("uri"):
            raise NotEmulated(f"{call.name} without a URI")
        text = to_text(call.get("uri"))
        try:
            url = http.Url.parse(text)
        except ValueError:
            raise self.fault("Invalid URI: The hostname could not be parsed.") from None
        if url.scheme != "http":
            raise NotEmulated(f"{call.name} with {url.scheme}")
        response = await self._exchange(url)
        if response.status >= 400:
            raise self._refused(response)
        if response.status in (301, 302, 303, 307, 308):
            raise NotEmulated(f"{call.name} following a redirect")
        return response

    async def _exchange(self, url: http.Url) -> http.Response:
        connection = "close" if self.call.flag("disablekeepalive") else "Keep-Alive"
        headers = {"User-Agent": _AGENT, "Connection": connection}
        net, settings = self.shell.process.net, self.shell.process.settings
        try:
            addresses = await net.resolve(url.host, timeout=_RESOLVE_SECONDS)
        except (dns.NameNotFound, dns.ResolverSilent):
            raise self.fault(f"The remote name could not be resolved: '{url.host}'") from None
        try:
            async with asyncio.timeout(self.seconds):
                asking = http.request(net, url, addresses[0], headers=headers)
                return await heard_late(asking, settings)
        except http.ConnectFailed:
            raise self.fault("Unable to connect to the remote server") from None
        except TimeoutError:
            raise self.fault("The operation has timed out.") from None
        except http.BadAnswer:
            words = "The underlying connection was closed: The connection was closed unexpectedly."
            raise self.fault(words) from None
        except OSError:
            words = "The underlying connection was closed: An unexpected error occurred on a receive."
            raise self.fault(words) from None

    def _refused(self, response: http.Response) -> Fault:
        """A status of 400 or more is an error; what is shown of it is the body's text, where there is one."""
        fault = self.fault(f"The remote server returned an error: ({response.status}) {response.reason}.")
        fault.details = re.sub(r"<[^>]*>", "", response.body.decode("utf-8", "replace")).strip()
        code = "".join(part.capitalize() for part in re.split(r"[ -]", response.reason))
        status = NetObject("System.Net.HttpStatusCode", text=code, number=response.status, value__=response.status)
        fault.members["Response"] = NetObject("System.Net.HttpWebResponse", StatusCode=status)
        return fault


async def invoke_web_request(shell: Shell, call: Call) -> list[object]:
    """Invoke-WebRequest; without -UseBasicParsing it fails in Server Core, which has no Internet Explorer."""
    response = await _Command(shell, call).send()
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
    table = HashTable(ordered=True)
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
    elements = {"Forms": "form", "Images": "img", "InputFields": "input", "Links": "a"}
    parsed = {name: _elements(body, name, tag) for name, tag in elements.items()}
    properties: dict[str, object] = {
        "StatusCode": response.status,
        "StatusDescription": response.reason,
        "Content": body if text else response.body,
        "RawContent": raw,
        "Headers": _headers_of(response),
        "RawContentLength": len(response.body),
    }
    if not text:
        kind, names = "WebResponseObject", tuple(properties)
    else:
        kind = "BasicHtmlWebResponseObject"
        names = (*list(properties)[:4], "Forms", "Headers", "Images", "InputFields", "Links", "ParsedHtml")
        names = (*names, "RawContentLength")
        properties |= parsed | {"Forms": None, "ParsedHtml": None}
    return _WebResponse(f"Microsoft.PowerShell.Commands.{kind}", properties, shown=names)


def _elements(body: str, name: str, tag: str) -> object:
    """No elements of a kind; a page that has some refuses when they are asked for."""
    if not re.search(rf"<{tag}\b", body, re.IGNORECASE):
        return []

    def refuse() -> object:
        raise NotEmulated(f"property {name} of a page with <{tag}>")

    return refuse


class _WebResponse(NetObject):
    """Its list view shows the beginning of the body only."""

    def view(self, name: str) -> object:
        value = self.get(name)
        if name in ("Content", "RawContent") and isinstance(value, str) and len(value) > _VIEW_LENGTH:
            return value[:_VIEW_LENGTH] + "..."
        return value


def _is_text(content_type: str) -> bool:
    kind = content_type.partition(";")[0].strip().lower()
    return kind.startswith("text/") or kind in ("application/json", "application/xml", "application/javascript")


def add_to(library: Library) -> None:
    """Register it with its aliases."""
    library.add("Invoke-WebRequest", _PARAMETERS, once(invoke_web_request), "iwr", "wget", "curl")
