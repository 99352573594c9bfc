# SPDX-License-Identifier: Apache-2.0
"""Requests to the API server: plain dicts in and out, a time-out on each, one clear error for
each way to fail.

Reads and throttled requests are repeated, inside a deadline, and the last error is kept.
Thread-safe.
"""

import contextlib
import functools
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from conformance.errors import ClusterUnusable
from conformance.kube import answers, proxy
from conformance.kube.access import Access
from conformance.kube.connection import Connection
from conformance.kube.discovery import Discovery, Resource
from conformance.kube.first_contact import first_contact
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
"""The path of a kind whose objects are created by POST although they only ask a question."""
PAUSE = 0.25
"""The pause, in seconds, before a request is repeated, unless the server sends Retry-After; it
doubles up to 2 s."""
UNAUTHORIZED = 10.0
"""If credentials that were accepted before are now refused, the request is repeated for this many
seconds, since a token webhook may be absent for a moment. After that the run ends, and every
further request is attempted once."""


class Kube(Connection):
    """One cluster's API."""

    def __init__(
        self,
        access: Access,
        timings: RunTimings | None = None,
        *,
        read_only: bool = False,
        reach: Reach | None = None,
    ) -> None:
        """Set up the client. ``read_only``: refuse every request that could change something (dry
        runs). ``reach`` is shared by the processes of a run."""
        super().__init__(access, timings or load_timings().run)
        self.reach = reach or Reach()
        self._read_only = read_only
        self._accepted = False
        """True once the server has accepted the user's credentials."""
        self._watched: set[Any] = set()
        """The open answers to watches."""
        self.discovery = Discovery(self.read)

    def read(
        self, path: str, *, needed: str = "", repeat: float | None = None, **query: str
    ) -> Any:
        """Return the JSON object of a GET. ``needed``: a field that an API server's answer must
        have.

        ``repeat``: as for :meth:`request`.
        """
        parse = functools.partial(answers.document, needed=needed)
        return self.request("GET", path, parse=parse, query=query, repeat=repeat)

    def request(
        self,
        method: str,
        path: str,
        *,
        parse: Callable[[bytes, str], Any] = answers.document,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        repeat: float | None = None,
    ) -> Any:
        """Send a request, and return the JSON object in the answer.

        Raise ApiRefused for an error status, and for an answer that no API server gives. Raise
        ApiUnreachable if no answer came, or its subclass ApiGone if the server was silent for too
        long or the run was interrupted.

        ``repeat``: also repeat the request after transport errors and 5xx (default: for GET only).
        A number limits the repetition after 5xx to these seconds. 429 is always repeated, since
        nothing was done. 401 is repeated if the credentials were accepted before. If 401 lasts, the
        run ends, and every further request that is answered 401 fails at once.

        ``parse``: a function that makes another value of the answer's body. It also receives the
        request's name, for raising ApiRefused.
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

        return self._repeat(
            name, ask, refused=repeat, lost=bool(repeat), within=self.timings.api_retry
        )

    def _demand_success(self, answer: Any, data: bytes, name: str) -> None:
        """Raise ApiRefused unless the server has carried out the request."""
        if answer.status == 407 and self.access.configuration.proxy:
            raise NoApiServer(proxy.demands_credentials(self.access.configuration), name)
        if refused := answers.refusal(
            answer.status, answer.reason or "", answer.headers, data, name
        ):
            raise refused
        self._accepted = True
        self.reach.answered()

    def _repeat(
        self, name: str, ask: Callable[[], T], *, refused: float, lost: bool, within: float
    ) -> T:
        """Return the result of ``ask``. Repeat it for some seconds after errors that may be
        temporary.

        ``refused``: also repeat after 5xx; a number is a shorter limit in seconds. ``lost``: also
        repeat after transport errors.
        """
        after_5xx = within if refused is True else refused
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
                failed.again |= refusal.passing and time.monotonic() - begin + pause <= after_5xx
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
        """Return the failure of a refused request, and whether to send the request again.

        ``asked``: the time of the last attempt. ``begin``: the time of the first attempt.
        ``within``: the seconds for which attempts may go on.
        """
        if refusal.code in (502, 503, 504) and not refusal.status:
            # a gateway answers in the API server's place
            self.reach.silent(asked, f"{refusal.code} {refusal.message}")
        else:
            self.reach.answered()
        unauthorized = refusal.code == 401 and self._accepted
        # A refusal that ends earlier may come from a token webhook that is absent for a moment.
        late = bool(self.reach.ended) or time.monotonic() - begin >= UNAUTHORIZED
        return _Failed(
            refusal,
            again=refusal.code == 429 or (unauthorized and not late),
            wait=refusal.retry_after,
            dead=unauthorized and (late or within >= self.timings.api_retry),
        )

    def _last(self, failed: "_Failed", tries: int, seconds: float) -> Exception:
        """Return the error to raise when no further attempt is made."""
        error = failed.error
        if failed.dead:
            why = getattr(self.access.renewal, "problem", "")
            self.reach.end(
                f"the API server no longer accepts the credentials of {self.access.user}: {error}"
                f"{f'; they were not renewed: {why}' if why else ''}"
            )
        if isinstance(error, ApiRefused):
            return error.repeated(tries, seconds, CredentialsDead if failed.dead else None)
        return error

    def is_reachable(self) -> bool:
        """Return whether the API server itself, and not a gateway, answers now. This sends a single
        request, even after the server was given up."""
        try:
            url = f"{self.access.configuration.host}/version"
            answer = self._call("GET", url, None, "", self.timings.api_connect)
            answers.body(answer, "GET /version")
        except Exception:  # an error of TLS, of the connection, or of a proxy
            return False
        return answer.status not in (407, 500, 502, 503, 504)

    def _lost(
        self, name: str, error: Exception, asked: float, tries: int, seconds: float
    ) -> ApiUnreachable:
        """Return the error for a request without an answer. Raise ``error`` itself if it is a
        mistake in the suite."""
        from urllib3.exceptions import HTTPError  # a dependency of the official client

        if (
            not isinstance(error, HTTPError | OSError) and type(error).__name__ != "ApiException"
        ):  # the official client raises some TLS errors as ApiException
            raise error
        why = proxy.explain(self.access.configuration, error)
        self.reach.silent(asked, why)
        lost = ApiUnreachable(name, tries, seconds, why)
        lost.__cause__ = error
        return lost

    def _patience(self, seconds: float | None = None) -> float:
        """Return the seconds to wait for an answer. ``seconds``: the wait for the events of a watch
        instead."""
        return max(
            0.01, min(self.timings.api_answer if seconds is None else seconds, self.reach.left)
        )

    def interrupt(self, seconds: float) -> None:
        """Record that the run was interrupted: only this thread and new threads may send requests,
        for some seconds. Open watches end.

        Takes no lock, since signal handlers call it.
        """
        self.reach.interrupt(seconds)
        for answer in list(self._watched):
            with contextlib.suppress(Exception):  # the watch may just have ended
                answer.response.connection.sock.shutdown(socket.SHUT_RDWR)

    def changes_something(self, what: str) -> None:
        """Raise GuardRefused in a dry run."""
        if self._read_only:
            raise GuardRefused(f"dry run: refused to {what}")

    def path(
        self,
        resource: Resource,
        namespace: str | None = None,
        name: str | None = None,
    ) -> str:
        """Return the URL path of a collection or an object."""
        parts = [resource.prefix]
        if namespace and resource.namespaced:
            parts += ["namespaces", quote(namespace)]
        parts.append(resource.plural)
        if name:
            parts.append(quote(name))
        return "/".join(parts)

    def resource(self, api_version: str, kind: str) -> Resource:
        """Return a kind's resource.  Raise MissingCapability if the cluster does not serve it."""
        return self.discovery.resource(api_version, kind)

    def get(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> Obj:
        """Return an object. Raise ApiRefused, with ``not_found`` if there is no such object."""
        found: Obj = self.read(self.path(self.resource(api_version, kind), namespace, name))
        return found

    def find(
        self, api_version: str, kind: str, name: str, namespace: str | None = None
    ) -> Obj | None:
        """Return an object; None if there is none, or if its kind is not served."""
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
        """Return the objects of a kind, read page by page. If ``namespace`` is None, return the
        objects of all namespaces."""
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
        """Return objects and the resourceVersion to watch from."""
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
        for item in items:  # the items of a list lack these two fields
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
        """Yield a watch's events (``type``, ``object``) after version ``since``, for at most
        ``seconds``.

        The watch ends when the time is over or the server ends it. Raise ApiRefused (410: the
        objects must be listed again), ApiUnreachable.
        """
        # a dependency of the official client
        from urllib3.exceptions import HTTPError, ReadTimeoutError

        path = self.path(self.resource(api_version, kind), namespace)
        query = {
            "watch": "true",
            "resourceVersion": since,
            "timeoutSeconds": str(max(1, int(seconds + 0.999))),
        }
        query |= {"allowWatchBookmarks": "true"}  # so that a watch without events is not silent
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
                yield from (
                    answers.event(line, name) for line in filter(bytes.strip, lines.add(chunk))
                )
        except ReadTimeoutError:
            return  # the whole time passed without an event
        except (HTTPError, OSError) as error:
            self.reach.silent(asked, describe(error))
            raise ApiUnreachable(name, 1, seconds, error) from error
        finally:
            self._watched.discard(answer)
            answer.response.close()

    def _watch(self, name: str, url: str, seconds: float) -> Any:
        """Return the open answer to a watch; None if no answer came in time. Raise ApiRefused and
        urllib3's errors."""
        from urllib3.exceptions import ReadTimeoutError  # a dependency of the official client

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
        """Return a container's log: the last ``tail`` lines, at most ``since`` seconds old, and of
        these lines the first ``head`` bytes.
        """
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
        """Return ``/version``, as first contact. Raise ClusterUnusable with one line that says what
        is wrong and where."""
        try:
            return self.request("GET", "/version", repeat=False)
        except (ApiUnreachable, ApiRefused) as error:
            raise ClusterUnusable([first_contact(self.access, error)]) from error


@dataclass
class _Failed:
    """A request that did not succeed."""

    error: Exception
    again: bool
    """True if the same request may soon succeed."""
    wait: float = 0.0
    """Seconds that the server asks clients to wait."""
    dead: bool = False
    """True if the server refuses the user's credentials; a repeated request may still be accepted.
    """
