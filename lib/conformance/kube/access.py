# SPDX-License-Identifier: Apache-2.0
"""The server and credentials of a cluster: from a kubeconfig and context, or from inside a pod.

``~/.kube/config`` is never read by default: a cluster is used only when it is named.  Every mistake
is a UsageProblem of one line, before any server is contacted.
"""

import os
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any
from urllib.parse import urlsplit

from conformance.errors import UsageProblem
from conformance.kube import proxy
from conformance.kube.credentials import (
    Credential,
    Source,
    end_of,
    end_of_certificate,
    impersonation,
    source_of,
)
from conformance.kube.kubeconfig import Chosen, choose

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
RENEWED_EVERY = 60.0
"""The interval, in seconds, between two reads of the source while the credentials end within SOON.
Credentials that are valid for no longer than this are renewed once they have ended or are
refused."""
SOON = 300.0
"""Credentials that end within this many seconds are renewed, as in the official client."""
RETRIED_EVERY = 5.0
"""The interval, in seconds, between two attempts to renew credentials that have ended."""


class Renewal:
    """Renews the credentials in a configuration from their source."""

    def __init__(self, source: Source, configuration: Any, ends: datetime | None) -> None:
        self.problem = ""
        """The reason why the last attempt gave no credentials; empty if it gave credentials."""
        self._source = source
        self._configuration = configuration
        self._ends = ends
        self._looked = time.monotonic()

    def due(self) -> bool:
        """Return whether the source must be read again because the credentials end soon or have
        ended."""
        if self._ends is None:
            return False
        age = time.monotonic() - self._looked
        left = (self._ends - datetime.now(UTC)).total_seconds()
        if left > 0:
            return left < SOON and age >= RENEWED_EVERY
        # the credentials ended after the last read, or it is time for another attempt
        return -left < age or age >= RETRIED_EVERY

    def renew(self) -> bool:
        """Read the credentials from their source, and return whether this succeeded. After a
        failure the old credentials stay, and ``problem`` has the reason."""
        self._looked = time.monotonic()
        try:
            credential = self._source.read()
            _take(self._configuration, credential)
        except (UsageProblem, OSError) as problem:
            self.problem = str(problem)
            return False
        self._ends = credential.ends
        self.problem = ""
        return True


@dataclass(frozen=True)
class Access:
    """The access to a cluster. ``configuration`` is the official client's configuration; ``where``
    is the name of the access in messages."""

    where: str
    server: str
    user: str
    configuration: Any = field(repr=False)
    renewal: Renewal | None = field(default=None, repr=False)
    """None if new credentials cannot be obtained."""
    ends: datetime | None = None
    """The end of the token or client certificate. None if neither shows its end, or if the
    credentials are renewed."""
    impersonation: Sequence[tuple[str, str]] = ()
    """Headers by which each request is made in the name of another user (kubeconfig's ``as``)."""
    namespace: str = ""
    """Namespace of the pod that this process runs in; empty if it runs in no pod."""

    @property
    def unverified(self) -> str:
        """Return the reason why answers may come from an attacker instead of the API server; an
        empty string if they cannot.

        Plain HTTP counts if it leaves this machine.
        """
        if self.configuration.host.startswith("https:"):
            return (
                ""
                if self.configuration.verify_ssl
                else f"the certificate of {self.server} is not verified (insecure-skip-tls-verify)"
            )
        if proxy.is_loopback(urlsplit(self.server).hostname or "") and not self.configuration.proxy:
            return ""
        return f"plain HTTP to {self.server}: nothing is verified or encrypted"


def from_kubeconfig(paths: Path | Sequence[Path], context: str | None = None) -> Access:
    """Return the access by a kubeconfig file, or by several files merged as kubectl merges
    KUBECONFIG.

    Raise UsageProblem if a file is missing, unreadable or malformed, or if the context, cluster or
    user is unknown.
    """
    files = [Path(paths)] if isinstance(paths, str | Path) else [Path(path) for path in paths]
    chosen = choose([path.expanduser() for path in files], context)
    try:
        found = _access(chosen)
        if chosen.server.startswith("https:"):
            # open the file now: an error of TLS would not name it
            Path(found.configuration.ssl_ca_cert or os.devnull).open("rb").close()
            tls(found.configuration)  # an unusable certificate is an error before any contact
    except (ssl.SSLError, OSError) as error:
        raise UsageProblem(
            f"{chosen.where}: its certificates or key cannot be used: {error}"
        ) from None
    return found


def _access(chosen: Chosen) -> Access:
    """Return the access of a context.  Raise UsageProblem, ssl.SSLError, OSError."""
    headers = impersonation(chosen)
    configuration = _configuration(chosen)
    proxy.settle(configuration, chosen.where, named=bool(chosen.cluster.get("proxy-url")))
    source = source_of(chosen)
    _take(configuration, credential := source.read())
    static = isinstance(source, Credential)
    ends = (end_of(credential.authorization), end_of_certificate(credential.certificate))
    user = chosen.user or "an anonymous user (system:anonymous)"
    return Access(
        chosen.where,
        chosen.server,
        f"{headers[0][1]} (impersonated by {user})" if headers else user,
        configuration,
        None if static else Renewal(source, configuration, credential.ends),
        ends=min(filter(None, ends), default=None) if static else None,
        impersonation=headers,
    )


def _configuration(chosen: Chosen) -> Any:
    """Return the official client's configuration for a cluster, still without credentials."""
    import urllib3  # both imports are slow: only when a cluster is used
    from kubernetes.client.configuration import Configuration

    configuration = Configuration()
    configuration.host = chosen.server.rstrip("/")
    configuration.verify_ssl = not chosen.cluster.get("insecure-skip-tls-verify", False)
    if not configuration.verify_ssl:  # Access.unverified warns once, not for each request
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
    configuration.tls_server_name = chosen.cluster.get("tls-server-name")
    configuration.proxy = chosen.cluster.get("proxy-url") or configuration.proxy
    if chosen.cluster.get("certificate-authority-data"):
        # the data may have comments around the certificates
        pem = chosen.decoded("certificate-authority-data")
        configuration.ca_cert_data = pem.decode("ascii", "ignore")
    else:
        configuration.ssl_ca_cert = chosen.cluster.get("certificate-authority")
    if not (chosen.given.get("client-certificate-data") or chosen.given.get("client-key-data")):
        configuration.cert_file = chosen.given.get("client-certificate")
        configuration.key_file = chosen.given.get("client-key")
    configuration.tls = None
    return configuration


def _take(configuration: Any, credential: Credential) -> None:
    """Put credentials into a configuration. If a client's key is in no file of the user, ``tls``
    becomes a TLS context with the key.

    Files that the user named may be renewed, so the client reads them for each connection. Raise
    ssl.SSLError and OSError if a file or key cannot be used.
    """
    if credential.key and not configuration.cert_file:
        configuration.tls = tls(configuration, credential)
    held = {"BearerToken": credential.authorization} if credential.authorization else {}
    configuration.api_key = held


def tls(configuration: Any, credential: Credential | None = None) -> ssl.SSLContext:
    """Return the TLS context that a configuration describes, with a client's key if there is
    one."""
    context = ssl.create_default_context(
        cafile=configuration.ssl_ca_cert, cadata=configuration.ca_cert_data
    )
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif configuration.assert_hostname is False:
        context.check_hostname = False
    if credential:
        with hidden(credential.certificate) as certificate, hidden(credential.key) as key:
            context.load_cert_chain(certificate, key)
    elif configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, configuration.key_file)
    return context


@contextmanager
def hidden(content: bytes) -> Iterator[str]:
    """Yield the path of a file with a key or a certificate, since TLS reads these from files only.

    The file is in memory. On systems without files in memory (macOS), it is removed at once.
    """
    in_memory = hasattr(os, "memfd_create")
    with (
        os.fdopen(os.memfd_create("kubeconfig"), "wb") if in_memory else NamedTemporaryFile()
    ) as file:
        file.write(content)
        file.flush()
        yield f"/proc/self/fd/{file.fileno()}" if in_memory else str(file.name)


def from_environment(environ: Mapping[str, str], context: str | None = None) -> Access:
    """Return access by the files that KUBECONFIG names. Raise UsageProblem, also if KUBECONFIG is
    not set."""
    value = environ.get("KUBECONFIG", "")
    files = [Path(part).expanduser() for part in value.split(os.pathsep) if part]
    if not files:
        raise UsageProblem("KUBECONFIG is not set; set it, or use --kubeconfig=PATH")
    return from_kubeconfig([path for path in files if path.exists()] or files, context)


def in_cluster(environ: Mapping[str, str], account: Path = SERVICE_ACCOUNT) -> Access:
    """Return access by the service account of the pod that this process runs in.  Raise
    UsageProblem outside a pod."""
    host = environ.get("KUBERNETES_SERVICE_HOST")
    port = environ.get("KUBERNETES_SERVICE_PORT")
    token = account / "token"
    authority = account / "ca.crt"
    missing = [
        what
        for what, there in (
            ("environment variable KUBERNETES_SERVICE_HOST", host),
            ("environment variable KUBERNETES_SERVICE_PORT", port),
            (str(token), token.exists()),
            (str(authority), authority.exists()),
        )
        if not there
    ]
    if missing:
        raise UsageProblem(
            "this process does not run in a pod of the cluster "
            f"(missing: {', '.join(missing)}); use --kubeconfig=PATH"
        )
    server = f"https://[{host}]:{port}" if ":" in str(host) else f"https://{host}:{port}"
    chosen = Chosen(
        str(account),
        "in-cluster",
        server,
        "service account",
        cluster={"certificate-authority": str(authority)},
        given={"tokenFile": str(token)},  # bound tokens are rotated about every hour
    )
    named = account / "namespace"
    return replace(
        _access(chosen),
        where="the pod's service account",
        namespace=named.read_text().strip() if named.exists() else "",
    )
