# SPDX-License-Identifier: Apache-2.0
"""The connection to an API server: its pool, credentials and headers.

It uses the official client for credentials, TLS, proxies and the connection pool, but none of its
models, which reject whole lists because of a single odd object. The client's own retries are off.
Thread-safe.
"""

import functools
import threading
from importlib import metadata
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from conformance.kube import answers
from conformance.kube.access import Access, Renewal
from conformance.settings import RunTimings

if TYPE_CHECKING:
    from urllib3 import HTTPHeaderDict


def preload() -> None:
    """Import slow libraries early, while the caller waits for another result."""
    import kubernetes.client.api_client
    import kubernetes.config  # noqa: F401


def user_agent(test: str = "") -> str:
    """Return ``calico-windows-conformance/0.1.0 test-id``, which links entries of the server's
    audit log to a test."""
    clean = "".join(char if 32 < ord(char) < 127 else "_" for char in test)
    return f"calico-windows-conformance/{_version()} {clean}".strip()


@functools.cache
def _version() -> str:
    """Return the package's version. Every request carries it, so it is read from its file only
    once."""
    try:
        return metadata.version("calico-windows-conformance")
    except metadata.PackageNotFoundError:  # run from a source tree that was never installed
        return "unpackaged"


class Connection:
    """A connection to one cluster's API server.

    ``test`` (a test's id, set by the plugin) goes into the User-Agent of every request.
    """

    def __init__(self, access: Access, timings: RunTimings) -> None:
        self.access = access
        self.timings = timings
        self.test = ""
        configuration = access.configuration
        configuration.retries = False
        configuration.connection_pool_maxsize = 64
        configuration.keep_alive = True  # some gateways drop an idle connection without notice
        self._api = self._pools()
        self._lock = threading.Lock()

    def _pools(self) -> Any:
        """Return the official client, with connections that end in time and take a client's key
        from memory.
        """
        # slow to import: only when a cluster is used
        from kubernetes.client.api_client import ApiClient

        api = ApiClient(self.access.configuration)
        manager: Any = api.rest_client.pool_manager
        if ready := self.access.configuration.tls:
            manager.connection_pool_kw |= {
                "ssl_context": ready,
                "ca_certs": None,
                "ca_cert_data": None,
            }
        answers.bound(manager)
        return api

    def close(self) -> None:
        """Close the pooled connections."""
        self._api.close()

    def connection(self, within: float) -> Any:
        """Return a new socket to the API server, connected like requests: TLS, proxy.

        ``within``: the time limit in seconds, which includes a proxy's answer. Raise urllib3's
        errors.
        """
        server = urlsplit(self.access.configuration.host)
        pool = self._api.rest_client.pool_manager.connection_from_url(server.geturl())
        connection = pool._new_conn()
        connection.timeout = within
        if connection.proxy and connection.proxy.scheme == "http":
            port = server.port or (443 if server.scheme == "https" else 80)
            connection.set_tunnel(server.hostname, port, pool.proxy_headers)
        answers.deadline(within)
        connection.connect()
        connection.sock.settimeout(within)
        return connection.sock

    def renew_credentials(self, refused: str) -> bool:
        """Get new credentials from their source, if there is one. Return whether they differ from
        the refused ones.

        ``refused`` is the Authorization header of the request that was answered 401.
        """
        if self.access.renewal is None:
            return False
        with self._lock:  # another thread may have renewed them meanwhile
            return self._authorization() != refused or self._renew(self.access.renewal)

    def _renew(self, renewal: Renewal) -> bool:
        """Renew the credentials; the caller holds the lock. Reconnect for a new client
        certificate."""
        renewed = renewal.renew()
        if self.access.configuration.tls:
            self._api = self._pools()
        return renewed

    def _authorization(self) -> str:
        return (
            self.access.configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
            or ""
        )

    def headers(self) -> "HTTPHeaderDict":
        """Return the headers of every request: credentials (renewed if due), impersonation and
        User-Agent.

        A key may occur repeatedly.
        """
        from urllib3 import HTTPHeaderDict  # a dependency of the official client

        renewal = self.access.renewal
        with self._lock:  # sources of credentials and hooks are not thread-safe
            if renewal and renewal.due():
                self._renew(renewal)
            token = self._authorization()
        own = {"User-Agent": user_agent(self.test), "Accept": "application/json"}
        own |= {"Authorization": token} if token else {}
        return HTTPHeaderDict([*own.items(), *self.access.impersonation])

    def _call(self, method: str, url: str, body: Any, content_type: str, patience: float) -> Any:
        """Send a request and return the answer. Repeat the request once with new credentials if the
        present ones have expired.

        ``patience``: the seconds from the request's beginning to the end of the answer; a watch
        ends after this time.
        """
        timeout = (self.timings.api_connect, patience)
        content = {} if body is None else {"Content-Type": content_type}
        for again in (True, False):
            headers = self.headers() | content
            answers.deadline(sum(timeout))
            answer = self._api.call_api(
                method, url, header_params=headers, body=body, _request_timeout=timeout
            )
            used = headers.get("Authorization", "")
            if not (again and answer.status == 401 and self.renew_credentials(used)):
                break
        return answer
