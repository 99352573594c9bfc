# SPDX-License-Identifier: Apache-2.0
"""The proxy between the suite and an API server: its connections, and the messages of its
failures.
"""

import base64
import ipaddress
import re
import ssl
from importlib.util import find_spec
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from conformance.errors import UsageProblem
from conformance.kube.refused import describe

SOCKS = ("socks4", "socks4a", "socks5", "socks5h")
REFUSED = re.compile(r"Tunnel connection failed: (?P<status>\d{3})(?P<phrase>[\w -]*)")
"""Matches the standard library's error for a proxy that refused to connect."""


def settle(configuration: Any, where: str, *, named: bool) -> None:
    """Set the proxy of connections in the official client's configuration, or None if there is no
    proxy.

    ``named``: the kubeconfig names the proxy (``proxy-url``). As with kubectl, a proxy from the
    environment is not used for loopback. Raise UsageProblem for proxies that would pass requests,
    but with which all execs would fail.
    """
    from kubernetes.client.rest import (
        should_bypass_proxies,  # the configuration has imported this module already
    )

    url = configuration.proxy or ""
    host = urlsplit(configuration.host).hostname or ""
    bypassed = should_bypass_proxies(configuration.host, configuration.no_proxy or "")
    if not url or bypassed or (is_loopback(host) and not named):
        configuration.proxy = None
        return
    parts = _usable(url, where)
    configuration.proxy = parts.geturl()
    if (
        parts.username and parts.scheme == "http"
    ):  # for a SOCKS proxy, the client reads them from the URL
        pair = ":".join(credentials(configuration)).encode()
        configuration.proxy_headers = {
            "Proxy-Authorization": f"Basic {base64.b64encode(pair).decode()}"
        }


def _usable(url: str, where: str) -> SplitResult:
    """Return the parts of a proxy's address. Raise UsageProblem if execs cannot use the proxy."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        usable = parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    # the message leaves out the URL, which may hold a password
    if not usable or parts.scheme not in ("http", "https", *SOCKS):
        raise UsageProblem(f"{where}: the proxy's address is not of the form http://HOST:PORT")
    if parts.scheme == "https":
        raise UsageProblem(
            f"{where}: execs cannot use a proxy with an https:// address; write http://HOST:PORT "
            "(traffic to the API server stays encrypted, in a CONNECT tunnel)"
        )
    if parts.scheme in SOCKS and find_spec("socks") is None:
        raise UsageProblem(
            f"{where}: a SOCKS proxy needs a package that is not installed: pip install PySocks"
        )
    return parts


def is_loopback(host: str) -> bool:
    """Return whether connections to a host stay on this machine, judged only by the host's name or
    address."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host.rstrip(".").lower() == "localhost"
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def credentials(configuration: Any) -> tuple[str, str]:
    """Return user and password of the proxy; two empty strings if the proxy's URL has none."""
    parts = urlsplit(configuration.proxy)
    return unquote(parts.username or ""), unquote(parts.password or "")


def name(configuration: Any) -> str:
    """Return the proxy's URL without credentials."""
    parts = urlsplit(configuration.proxy)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def explain(configuration: Any, error: BaseException) -> str:
    """Return the error in one line, with the proxy's name if the proxy gave no connection.

    ``error``: the error of an attempt to connect, raised by urllib3.
    """
    text = describe(getattr(error, "original_error", error))
    kind = type(error).__name__
    blamed = kind.startswith(("Proxy", "NewConnection", "NameResolution", "ConnectTimeout"))
    blamed |= isinstance(error, OSError) and not isinstance(error, ssl.SSLError)
    if not configuration.proxy or not blamed:
        return describe(error)
    if not (found := REFUSED.search(text)):
        return f"proxy {name(configuration)} provides no connection: {text}"
    if found["status"] == "407":
        return demands_credentials(configuration)
    host = urlsplit(configuration.host).netloc
    return f"proxy {name(configuration)} does not connect to {host}: {found['status']}{found['phrase']}"


def demands_credentials(configuration: Any) -> str:
    """Return the message for a proxy's answer 407."""
    given = (
        "does not accept the credentials in its URL"
        if credentials(configuration)[0]
        else "demands credentials"
    )
    return (
        f"proxy {name(configuration)} {given} (407): write them as http://USER:PASSWORD@HOST:PORT"
    )
