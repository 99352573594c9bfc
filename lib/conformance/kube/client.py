# SPDX-License-Identifier: Apache-2.0
"""Requests to the API server: plain dicts in and out, a time-out on every one, one clear error for
each way to fail.

Uses the official client for what it knows best (credentials, TLS, proxies, connection pool) and
none of its models: they reject whole lists for one odd object.  Its own retries are off; reads
and throttled requests are repeated here, inside a deadline, and the last error is kept.
Thread-safe.
"""

import contextlib
import functools
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Any, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from conformance.errors import ClusterUnusable
from conformance.kube import answers, proxy
from conformance.kube.access import Access
from conformance.kube.discovery import Discovery, Resource
from conformance.kube.guard import GuardRefused
from conformance.kube.reach import CredentialsDead, Reach
from conformance.kube.refused import ApiRefused, ApiUnreachable, NoApiServer, describe
from conformance.settings import RunTimings, load_timings
from conformance.timing import SYSTEM_CLOCK

Obj = dict[str, Any]
T = TypeVar("T")
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
FIELD_MANAGER = "calico-windows-conformance"


REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
"""Posted, and yet a question."""
PAUSE = 0.25
"""s.  Before a request is repeated, unless the server says Retry-After; doubles up to 2 s."""


UNAUTHORIZED = 10.0
"""s.  For so long a request is repeated whose credentials were taken before and are not now: a
webhook that knows tokens may be away for a moment.  Then the run ends, and what it still asks is
tried once."""


def preload() -> None:
    """Import what takes long, for whoever has something else to wait for."""
    import kubernetes.client.api_client
    import kubernetes.config  # noqa: F401


def user_agent(test: str = "") -> str:
    """``calico-windows-conformance/0.1.0 test-id``: ties the server's audit log to a test."""
    clean = "".join(char if 32 < ord(char) < 127 else "_" for char in test)
    return f"calico-windows-conformance/{_version()} {clean}".strip()


@functools.cache
def _version() -> str:
    """Read from a file, and therefore once: every request carries it."""
    try:
        return metadata.version("calico-windows-conformance")
    except metadata.PackageNotFoundError:  # run from a source tree that was never installed
        return "unpackaged"


class Kube:
    """One cluster's API.  ``test`` (a test's id, set by the plugin) goes into the User-Agent of
    every request."""

    def __init__(
        self,
        access: Access,
        timings: RunTimings | None = None,
        *,
        read_only: bool = False,
        reach: Reach | None = None,
    ) -> None:
        """``read_only``: refuse every request that could change something (dry runs).
        ``reach``: shared by a run."""
        self.access = access
        self.timings = timings or load_timings().run
        self.test = ""
        self.reach = reach or Reach()
        self._read_only = read_only
        self._accepted = False
        """Whether the server has ever taken the user's credentials."""
        configuration = access.configuration
        configuration.retries = False
        configuration.connection_pool_maxsize = 64
        configuration.keep_alive = True  # a gateway that forgets an idle connection tells nobody
        self._api = self._pools()
        self._lock = threading.Lock()
        self._watched: set[Any] = set()
        """Answers to watches that are open."""
        self.discovery = Discovery(self.read)

    def _pools(self) -> Any:
        """The official client, with connections that end in time and take a client's key from
        memory."""
        from kubernetes.client.api_client import (
            ApiClient,  # slow to import: only when a cluster is used
        )

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
        """Give the pooled connections back."""
        self._api.close()

    def connection(self, within: float) -> Any:
        """Return a socket of its own to the API server, connected as requests are: TLS, proxy.

        ``within`` seconds bound it, and the answer of a proxy.  Raises what urllib3 raises.
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
        """Get new credentials where a plugin gives them; whether there are others now than those
        ``refused``.

        ``refused`` is the Authorization header of the request that was answered 401.
        """
        if self.access.renew is None:
            return False
        with self._lock:
            if self._authorization() == refused:  # nobody else has renewed them meanwhile
                self.access.renew()
                self._api = self._pools()
            return True

    def _authorization(self) -> str:
        return (
            self.access.configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
            or ""
        )

    def headers(self) -> dict[str, str]:
        """Credentials (refreshed where the kubeconfig says how) and User-Agent, as every request
        carries them."""
        headers = {"User-Agent": user_agent(self.test), "Accept": "application/json"}
        with self._lock:  # the refresh hook runs a credential plugin and is not thread-safe
            token = self._authorization()
        if token:
            headers["Authorization"] = token
        return headers

    def read(self, path: str, *, needed: str = "", **query: str) -> Any:
        """The JSON object that a GET answers with; ``needed``: a field without which it is no
        API server's."""
        parse = functools.partial(answers.document, needed=needed)
        return self.request("GET", path, parse=parse, query=query)

    def request(
        self,
        method: str,
        path: str,
        *,
        parse: Callable[[bytes, str], Any] = answers.document,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        repeat: bool | None = None,
    ) -> Any:
        """The answer, a JSON object.

        Raises ApiRefused for an error status and for an answer that no API server gives,
        ApiUnreachable when no answer came (ApiGone: for too long, or the run was interrupted).
         ``repeat``: also repeat after transport errors and 5xx (default: for GET only).  429 is
        always repeated, since nothing was done, and so is 401 where the credentials were taken
        before; if it lasts, the run ends, and is answered 401 at once from then on.

        ``parse``: makes something else of the answer's body, given the request's name to raise
        ApiRefused with.
        """
        name = f"{method} {path}"
        repeat = method == "GET" if repeat is None else repeat
        if method != "GET" and not path.startswith(REVIEWS):
            self.changes_something(name)
        url = self.access.configuration.host + path + (f"?{urlencode(query)}" if query else "")

        def ask() -> Any:
            answer = self._call(method, url, body, content_type, self._patience())
            data = answers.body(answer, name)
            self._demand_success(answer, data, name)
            return parse(data, name)

        return self._repeat(name, ask, refused=repeat, lost=repeat, within=self.timings.api_retry)

    def _demand_success(self, answer: Any, data: bytes, name: str) -> None:
        """Raises ApiRefused unless the server has done what it was asked."""
        if answer.status == 407 and self.access.configuration.proxy:
            raise NoApiServer(proxy.demands_credentials(self.access.configuration), name)
        if refused := answers.refusal(
            answer.status, answer.reason or "", answer.headers, data, name
        ):
            raise refused
        self._accepted = True
        self.reach.answered()

    def _repeat(
        self, name: str, ask: Callable[[], T], *, refused: bool, lost: bool, within: float
    ) -> T:
        """What ``ask`` returns, asked again for so many seconds where that may help.

        ``refused``: also after 5xx; ``lost``: also after transport errors.
        """
        begin = time.monotonic()
        pause = PAUSE
        tries = 0
        while True:
            self.reach.check(name)
            tries += 1
            asked = time.monotonic()
            try:
                return ask()
            except ApiRefused as refusal:
                failed = self._refused(refusal, asked, begin, within)
                failed.again |= refused and refusal.passing
            except Exception as error:
                unanswered = self._lost(name, error, asked, tries, time.monotonic() - begin)
                failed = _Failed(unanswered, lost and type(error).__name__ != "ApiException")
            wait = max(failed.wait, pause)
            seconds = time.monotonic() - begin
            if not failed.again or seconds + wait > within:
                raise self._last(failed, tries, seconds)
            SYSTEM_CLOCK.sleep(wait)
            pause = min(2.0, pause * 2)

    def _refused(self, refusal: ApiRefused, asked: float, begin: float, within: float) -> "_Failed":
        """Judge a refusal of a request that is repeated for ``within`` seconds from ``begin``."""
        if refusal.code in (502, 503, 504) and not refusal.status:
            # a gateway's answer, not its own
            self.reach.silent(asked, f"{refusal.code} {refusal.message}")
        else:
            self.reach.answered()
        unauthorized = refusal.code == 401 and self._accepted
        # For less than that it may be the hiccup of a webhook that knows tokens.
        late = bool(self.reach.ended) or time.monotonic() - begin >= UNAUTHORIZED
        return _Failed(
            refusal,
            again=refusal.code == 429 or (unauthorized and not late),
            wait=refusal.retry_after,
            dead=unauthorized and (late or within >= self.timings.api_retry),
        )

    def _last(self, failed: "_Failed", tries: int, seconds: float) -> Exception:
        """Return what to raise for the last of so many answers."""
        error = failed.error
        if failed.dead:
            self.reach.end(
                f"the API server takes the credentials of {self.access.user} no more: {error}"
            )
        if isinstance(error, ApiRefused):
            return error.repeated(tries, seconds, CredentialsDead if failed.dead else None)
        return error

    def is_reachable(self) -> bool:
        """Whether the API server answers now, and no gateway for it; asked once, also when it
        was given up."""
        try:
            url = f"{self.access.configuration.host}/version"
            answer = self._call("GET", url, None, "", self.timings.api_connect)
            answers.body(answer, "GET /version")
        except Exception:  # of TLS, of the connection, of a proxy on the way
            return False
        return answer.status not in (407, 500, 502, 503, 504)

    def _lost(
        self, name: str, error: Exception, asked: float, tries: int, seconds: float
    ) -> ApiUnreachable:
        """The error for a request that got no answer.  Raises ``error`` where it is a mistake of
        the suite's own."""
        from urllib3.exceptions import HTTPError  # comes with the client

        if (
            not isinstance(error, HTTPError | OSError) and type(error).__name__ != "ApiException"
        ):  # TLS errors, wrapped
            raise error
        why = proxy.explain(self.access.configuration, error)
        self.reach.silent(asked, why)
        lost = ApiUnreachable(name, tries, seconds, why)
        lost.__cause__ = error
        return lost

    def _patience(self, seconds: float | None = None) -> float:
        """Seconds for an answer (``seconds``: for what may come of a watch)."""
        return max(
            0.01, min(self.timings.api_answer if seconds is None else seconds, self.reach.left)
        )

    def interrupt(self, seconds: float) -> None:
        """The run was interrupted: only this thread and new ones may ask, for so many seconds;
        watches of others end.

        Takes no lock: it is called by handlers of signals.
        """
        self.reach.interrupt(seconds)
        for answer in list(self._watched):
            with contextlib.suppress(Exception):  # it may just have ended
                answer.response.connection.sock.shutdown(socket.SHUT_RDWR)

    def changes_something(self, what: str) -> None:
        """Raises GuardRefused in a dry run."""
        if self._read_only:
            raise GuardRefused(f"dry run: refused to {what}")

    def _call(self, method: str, url: str, body: Any, content_type: str, patience: float) -> Any:
        """The answer, asked for once more with new credentials where those in use have run out.

        ``patience``: s from its beginning to its end; that of a watch ends then.
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

    def path(
        self,
        resource: Resource,
        namespace: str | None = None,
        name: str | None = None,
    ) -> str:
        """URL path of a collection or an object."""
        parts = [resource.prefix]
        if namespace and resource.namespaced:
            parts += ["namespaces", quote(namespace)]
        parts.append(resource.plural)
        if name:
            parts.append(quote(name))
        return "/".join(parts)

    def resource(self, api_version: str, kind: str) -> Resource:
        """Where a kind is served.  Raises MissingCapability when the cluster does not serve it."""
        return self.discovery.resource(api_version, kind)

    def get(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> Obj:
        """One object.  Raises ApiRefused (``not_found``)."""
        found: Obj = self.read(self.path(self.resource(api_version, kind), namespace, name))
        return found

    def find(
        self, api_version: str, kind: str, name: str, namespace: str | None = None
    ) -> Obj | None:
        """One object, or None when there is none (also when its kind is not served)."""
        if not self.discovery.serves(api_version, kind):
            return None
        try:
            return self.get(api_version, kind, name, namespace)
        except ApiRefused as refusal:
            if refusal.not_found:
                return None
            raise

    def objects(
        self,
        api_version: str,
        kind: str,
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
    ) -> list[Obj]:
        """Objects of a kind (namespace None: of all namespaces), page by page."""
        return self.objects_at(api_version, kind, namespace, labels=labels, fields=fields)[0]

    def objects_at(
        self,
        api_version: str,
        kind: str,
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
    ) -> tuple[list[Obj], str]:
        """Objects and the resourceVersion to watch from."""
        path = self.path(self.resource(api_version, kind), namespace)
        query = (
            {"limit": "500"}
            | ({"labelSelector": labels} if labels else {})
            | ({"fieldSelector": fields} if fields else {})
        )
        items: list[Obj] = []
        while True:
            page = self.request("GET", path, parse=answers.page, query=query)
            items += page.get("items") or []
            meta = page.get("metadata") or {}
            if not meta.get("continue"):
                break
            query["continue"] = meta["continue"]
        for item in items:  # lists leave these out
            item.setdefault("apiVersion", api_version)
            item.setdefault("kind", kind)
        return items, str(meta.get("resourceVersion") or "")

    def watch(
        self,
        api_version: str,
        kind: str,
        namespace: str | None,
        since: str,
        *,
        labels: str = "",
        fields: str = "",
        seconds: float,
    ) -> Iterator[Obj]:
        """Watch events (``type``, ``object``) after ``since`` for at most ``seconds``.

        Ends when the time is over or the server ends it; raises ApiRefused (410: list again),
        ApiUnreachable.
        """
        from urllib3.exceptions import HTTPError, ReadTimeoutError  # comes with the client

        path = self.path(self.resource(api_version, kind), namespace)
        query = {
            "watch": "true",
            "resourceVersion": since,
            "timeoutSeconds": str(max(1, int(seconds + 0.999))),
        }
        query |= {"allowWatchBookmarks": "true"}  # something to hear from where nothing happens
        query |= {"labelSelector": labels} if labels else {}
        query |= {"fieldSelector": fields} if fields else {}
        url = f"{self.access.configuration.host}{path}?{urlencode(query)}"
        name = f"WATCH {path}"
        within = min(seconds, self.timings.api_retry)
        answer = self._repeat(
            name, lambda: self._watch(name, url, seconds), refused=True, lost=False, within=within
        )
        if answer is None:
            return
        asked = time.monotonic()
        try:
            self._watched.add(answer)
            lines = answers.Lines("an event", answers.PAGE)
            for chunk in answer.response.stream(answers.CHUNK, decode_content=True):
                for line in filter(bytes.strip, lines.add(chunk)):
                    yield answers.event(line, name)
        except ReadTimeoutError:
            return  # quiet for as long as we were willing to listen
        except (HTTPError, OSError) as error:
            self.reach.silent(asked, describe(error))
            raise ApiUnreachable(name, 1, seconds, error) from error
        finally:
            self._watched.discard(answer)
            answer.response.close()

    def _watch(self, name: str, url: str, seconds: float) -> Any:
        """The answer to a watch, open; None: there was none for so long.  Raises ApiRefused and
        urllib3's errors."""
        from urllib3.exceptions import ReadTimeoutError  # comes with the client

        try:
            answer = self._call("GET", url, None, "", self._patience(seconds))
        except ReadTimeoutError:
            return None
        if answer.status >= 300 or "html" in str(answer.getheader("Content-Type")):
            self._demand_success(answer, answers.body(answer, name), name)
        return answer

    def logs(
        self,
        namespace: str,
        pod: str,
        container: str,
        *,
        tail: int | None = None,
        since: float | None = None,
        previous: bool = False,
        head: int | None = None,
    ) -> str:
        """A container's log: the last ``tail`` lines, at most ``since`` seconds old; of it the
        first ``head`` bytes."""
        query = {"container": container} | ({"tailLines": str(tail)} if tail is not None else {})
        query |= {"sinceSeconds": str(max(1, int(since)))} if since is not None else {}
        query |= {"previous": "true"} if previous else {}
        query |= {"limitBytes": str(head)} if head is not None else {}
        path = f"/api/v1/namespaces/{quote(namespace)}/pods/{quote(pod)}/log"
        text = self.request(
            "GET", path, parse=lambda data, _: data.decode(errors="replace"), query=query
        )
        return str(text)

    def version(self) -> Any:
        """``/version``, as first contact.  Raises ClusterUnusable with one line that says what
        is wrong and where."""
        try:
            return self.request("GET", "/version", repeat=False)
        except (ApiUnreachable, ApiRefused) as error:
            raise ClusterUnusable([first_contact(self.access, error)]) from error


@dataclass
class _Failed:
    """A request that did not do what it was to do."""

    error: Exception
    again: bool
    """Whether the same request may succeed before long."""
    wait: float = 0.0
    """s.  For which the server asks to be left alone."""
    dead: bool = False
    """Whether the server takes the user's credentials no more, unless it is asked again."""


def first_contact(access: Access, error: ApiRefused | ApiUnreachable) -> str:
    """What first contact's failure means, in one line."""
    where = f"{access.server} ({access.where})"
    if isinstance(error, NoApiServer):
        return (
            f"{where} is no Kubernetes API server, or does not let this machine reach one: {error}"
        )
    if isinstance(error, ApiRefused):
        if error.code == 401:
            return f"{where} does not accept the credentials of {access.user}: expired or revoked ({error.message})"
        if error.forbidden:
            return f"{where} forbids {access.user} even to read /version: {error.message}"
        return f"{where} answers {error.code} {error.reason} to {error.request}: {error.message}"
    text = describe(error.last)
    if "CERTIFICATE_VERIFY_FAILED" in text or "certificate verify failed" in text:
        foreign = any(
            words in text for words in ("issuer", "self-signed", "self signed")
        )  # else too old, or another's
        why = (
            "this kubeconfig's certificate authority did not sign"
            if foreign
            else "is not valid for it"
        )
        return f"{where} has a certificate that {why}: {text}"
    if "refused" in text.lower() and not text.startswith("proxy "):
        return f"{where} refuses connections: is the cluster (or the lab that wrote this kubeconfig) still running?"
    return f"{where} cannot be reached: {text}"
