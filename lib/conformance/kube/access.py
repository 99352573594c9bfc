# SPDX-License-Identifier: Apache-2.0
"""How to reach a cluster and as whom: from a kubeconfig and context, or from inside a pod.

Everything wrong with files and contexts is a UsageProblem of one line, before anything is
contacted.  It does not look for ``~/.kube/config``: a cluster is used only when it is named.
"""

import base64
import copy
import json
import logging
import os
import re
import ssl
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import yaml

from conformance.errors import UsageProblem
from conformance.kube import proxy
from conformance.kube.fields import mapping_at, value_at

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True)
class Access:
    """A way to a cluster; ``configuration`` is the official client's, ``where`` how messages
    name it."""

    where: str
    server: str
    user: str
    configuration: Any = field(repr=False)
    renew: Callable[[], None] | None = field(default=None, repr=False)
    """Gets new credentials into ``configuration`` before they are due; None where there is no
    way to get any."""
    ends: datetime | None = None
    """When its token or client certificate ends, where that can be read from it and nothing
    renews it."""


@dataclass(frozen=True)
class _Chosen:
    """A context of one or several kubeconfig files, with its cluster and its user."""

    files: Sequence[Path]
    context: str
    server: str
    user: str
    cluster: Mapping[str, Any]
    given: Mapping[str, Any]
    """What the user's entry holds."""

    @property
    def where(self) -> str:
        return f"kubeconfig {_joined(self.files)}, context {self.context}"


def from_kubeconfig(paths: Path | Sequence[Path], context: str | None = None) -> Access:
    """Access by one kubeconfig file, or several that are merged as kubectl merges KUBECONFIG.

    Raises UsageProblem: file missing, unreadable, malformed; context, cluster or user unknown.
    """
    files = [Path(paths)] if isinstance(paths, str | Path) else [Path(path) for path in paths]
    chosen = _choose(files, context)
    configuration = _load(files, chosen.context, _joined(files))
    proxy.settle(configuration, chosen.where, named=bool(chosen.cluster.get("proxy-url")))
    given = chosen.given
    plugin = given.get("exec")
    if plugin and not _has_credentials(configuration):
        raise UsageProblem(
            f"kubeconfig {_joined(files)}, user {chosen.user}: "
            + _why_no_credentials(plugin, files[0].parent)
        )

    def renew() -> None:
        fresh = _load(files, chosen.context, _joined(files))
        for credential in ("api_key", "cert_file", "key_file", "refresh_api_key_hook", "tls"):
            setattr(configuration, credential, getattr(fresh, credential))

    from_file = given.get("tokenFile") and not given.get("token")
    return Access(
        chosen.where,
        chosen.server,
        chosen.user,
        configuration,
        renew if plugin or from_file else None,
        ends=None
        if plugin
        else _end(given, configuration, from_file or given.get("auth-provider")),
    )


def _end(given: Mapping[str, Any], configuration: Any, renewed: Any) -> datetime | None:
    """Return when a user's credentials end; the token's end is left out if it is ``renewed``."""
    token = configuration.get_api_key_with_prefix("BearerToken", alias="authorization") or ""
    ends = [
        None if renewed else end_of(token),
        end_of_certificate(given.get("client-certificate-data"), configuration.cert_file),
    ]
    return min(filter(None, ends), default=None)


def _joined(files: Sequence[Path]) -> str:
    return ":".join(map(str, files))


def _choose(files: Sequence[Path], context: str | None) -> _Chosen:
    """Return what ``context``, or else the first current-context, names.  Raises UsageProblem."""
    parts = [_read(path) for path in files]
    contexts, clusters, users = (
        _by_name(parts, files, kind) for kind in ("contexts", "clusters", "users")
    )
    currents = filter(None, (part.get("current-context") for part in parts))
    chosen = context or next(currents, None)
    pointed = mapping_at(contexts, str(chosen), "context")
    cluster = pointed.get("cluster")
    user = pointed.get("user")
    server = str(value_at(clusters, str(cluster), "cluster", "server") or "")
    name = _joined(files)
    in_context = f"kubeconfig {name}: context {chosen!r} names"
    problems = (
        (not contexts, f"{name} is no kubeconfig: it has no contexts"),
        (
            not chosen,
            f"kubeconfig {name} has no current-context; "
            f"choose one of {_names(contexts)} by --context",
        ),
        (
            chosen not in contexts,
            f"kubeconfig {name} has no context {chosen!r}; it has {_names(contexts)}",
        ),
        (cluster not in clusters, f"{in_context} cluster {cluster!r}, which is not in it"),
        (user not in users, f"{in_context} user {user!r}, which is not in it"),
        (
            not server.startswith(("https://", "http://")),
            f"kubeconfig {name}: cluster {cluster!r} has no server address (found {server!r})",
        ),
    )
    for wrong, problem in problems:
        if wrong:
            raise UsageProblem(problem)
    return _Chosen(
        files,
        str(chosen),
        server,
        str(user),
        cluster=mapping_at(clusters, str(cluster), "cluster"),
        given=mapping_at(users, str(user), "user"),
    )


def from_environment(environ: Mapping[str, str], context: str | None = None) -> Access:
    """Access by the files that KUBECONFIG names.  Raises UsageProblem, also when it is not set."""
    value = environ.get("KUBECONFIG", "")
    files = [Path(part).expanduser() for part in value.split(os.pathsep) if part]
    if not files:
        raise UsageProblem("KUBECONFIG is not set; set it, or name the file by --kubeconfig=PATH")
    return from_kubeconfig([path for path in files if path.exists()] or files, context)


def in_cluster(environ: Mapping[str, str], account: Path = SERVICE_ACCOUNT) -> Access:
    """Access by the service account of the pod that this process runs in.  Raises UsageProblem
    outside a pod."""
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
            f"not inside a pod of the cluster (missing: {', '.join(missing)}); use --kubeconfig=PATH"
        )
    from kubernetes.client.configuration import (
        Configuration,  # slow to import: only when a cluster is used
    )

    configuration = Configuration()
    configuration.host = (
        f"https://[{host}]:{port}" if ":" in str(host) else f"https://{host}:{port}"
    )
    configuration.ssl_ca_cert = str(authority)
    configuration.tls = None
    proxy.settle(configuration, "the pod's service account", named=False)

    def reread(target: Any) -> None:  # bound tokens are rotated about every hour
        target.api_key["BearerToken"] = "Bearer " + token.read_text().strip()

    reread(configuration)
    configuration.refresh_api_key_hook = reread  # type: ignore[assignment]
    return Access("the pod's service account", configuration.host, "service account", configuration)


RENEWED_EVERY = 60.0
"""s.  Between two looks whether a credential plugin has to be run again.  The official client
looks before each request, and takes a token that ends within 5 min for one that has ended: with
tokens that live no longer than that, it runs the plugin for every request.  One that ends sooner
than this is renewed when it is refused."""
PLUGIN_WITHIN = 60.0
"""s.  For a credential plugin that is asked what is wrong; one that waits for a person must be
called beforehand."""


PEM = rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----"
VALIDITY = re.compile(
    rb"\x30.(?:\x17\x0d\d{12}|\x18\x0f\d{14})Z(?:\x17\x0d|\x18\x0f)(?P<ends>\d{12,14})Z", re.DOTALL
)
"""A certificate's notBefore and notAfter in DER: the only two times in a row (RFC 5280,
4.1.2.5)."""
YEAR_WITH_CENTURY = 14
"""Digits of a GeneralizedTime; a UTCTime has no century, and its years before 50 are 20xx."""
FILES = ("ssl_ca_cert", "cert_file", "key_file")
"""Fields of the official client's configuration that name files."""


def end_of(token: str) -> datetime | None:
    """When a token ends that says so (a JSON Web Token, RFC 7519); None: it does not."""
    try:
        body = token.split(".")[1]
        return datetime.fromtimestamp(
            float(json.loads(base64.urlsafe_b64decode(f"{body}==="))["exp"]), UTC
        )
    except (IndexError, KeyError, TypeError, ValueError, OverflowError):
        return None


def end_of_certificate(data: str | None, path: str | None) -> datetime | None:
    """Return when a client certificate ends (``notAfter``, RFC 5280), the first of PEM in base64 or
    of a file.

    None: there is no certificate, or its end cannot be read.
    """
    try:
        pem = re.search(
            PEM, base64.b64decode(data) if data else Path(path or "").read_bytes(), re.DOTALL
        )
        found = VALIDITY.search(ssl.PEM_cert_to_DER_cert(pem[0].decode())) if pem else None
    except (OSError, ValueError):
        return None
    if found is None:
        return None
    text = found["ends"].decode()
    century = "" if len(text) == YEAR_WITH_CENTURY else "20" if text < "50" else "19"
    return datetime.strptime(f"{century}{text}Z", "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)


def _seldom(hook: Callable[[Any], None]) -> Callable[[Any], None]:
    """The client's hook, which may run a credential plugin, no more often than every RENEWED_EVERY.

    The hook sets once more all that the kubeconfig says, files that are no more among it, while
    other threads connect: only the token may reach them.
    """
    looked = time.monotonic()

    def refresh(configuration: Any) -> None:
        nonlocal looked
        if time.monotonic() - looked >= RENEWED_EVERY:
            looked = time.monotonic()
            hook(copy.copy(configuration))  # the token is in a dict that both share

    return refresh


def _has_credentials(configuration: Any) -> bool:
    token = configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
    return bool(token or configuration.cert_file or configuration.tls or configuration.username)


def _why_no_credentials(plugin: Mapping[str, Any], folder: Path) -> str:
    """Why a credential plugin gave nothing: it is run once more, since the official client only
    logs its errors."""
    command = [str(plugin.get("command") or ""), *map(str, plugin.get("args") or [])]
    said = " ".join(command)
    info = {
        "apiVersion": plugin.get("apiVersion"),
        "kind": "ExecCredential",
        "spec": {"interactive": False},
    }
    own = {str(item.get("name")): str(item.get("value")) for item in plugin.get("env") or []}
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, **own, "KUBERNETES_EXEC_INFO": json.dumps(info)},
            text=True,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=PLUGIN_WITHIN,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"its credential plugin {said!r} did not end within {PLUGIN_WITHIN:.0f} s; log in before the run"
    except OSError as error:
        return (
            f"its credential plugin {said!r} cannot be run: {error.strerror or error}; install it"
        )
    words = " ".join(done.stderr.split())[-500:]
    if done.returncode:
        return f"its credential plugin {said!r} failed with exit code {done.returncode}: {words or 'it said nothing'}"
    return f"its credential plugin {said!r} gave neither a token nor a certificate{f': {words}' if words else ''}"


def _read(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text()
    except FileNotFoundError:
        raise UsageProblem(f"kubeconfig {path} does not exist") from None
    except IsADirectoryError:
        raise UsageProblem(f"kubeconfig {path} is a directory, not a file") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise UsageProblem(f"kubeconfig {path} cannot be read: {reason}") from None
    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" line {mark.line + 1}" if mark else ""
        raise UsageProblem(
            f"kubeconfig {path}{line} is not YAML: {getattr(error, 'problem', error)}"
        ) from None
    if not isinstance(content, dict):
        raise UsageProblem(
            f"kubeconfig {path} is {'empty' if content is None else 'not a mapping'}"
        )
    if (told := [content.get("apiVersion", "v1"), content.get("kind", "Config")]) != [
        "v1",
        "Config",
    ]:
        raise UsageProblem(f"{path} is no kubeconfig (v1, Config): it is {told[0]}, {told[1]}")
    return content


def _by_name(
    parts: Sequence[Mapping[str, Any]], files: Sequence[Path], kind: str
) -> dict[str, dict[str, Any]]:
    """Entries of one kind by name; the first file that has a name wins, as with kubectl."""
    found: dict[str, dict[str, Any]] = {}
    for part, path in zip(parts, files, strict=True):
        entries = part.get(kind) or []
        if not isinstance(entries, list) or not all(
            isinstance(item, dict) and item.get("name") for item in entries
        ):
            raise UsageProblem(f"kubeconfig {path}: {kind} is not a list of entries with a name")
        for entry in entries:
            found.setdefault(str(entry["name"]), entry)
    return found


def _names(entries: Mapping[str, Any]) -> str:
    return ", ".join(sorted(entries)) or "none"


def _load(files: Sequence[Path], context: str, name: str) -> Any:
    """The official client's configuration for a context that is known to exist."""
    from kubernetes.client.configuration import (
        Configuration,  # slow to import: only when a cluster is used
    )
    from kubernetes.config import kube_config

    configuration = Configuration()
    kube_config._create_temp_file_with_content = _write_hidden
    logging.disable(
        logging.ERROR
    )  # it prints what a credential plugin does wrong, which is said in our words
    try:
        kube_config.load_kube_config(  # type: ignore[no-untyped-call]
            config_file=os.pathsep.join(str(path) for path in files),
            context=context,
            client_configuration=configuration,
            persist_config=False,
        )
        if configuration.refresh_api_key_hook:
            configuration.refresh_api_key_hook = _seldom(configuration.refresh_api_key_hook)
    except (
        Exception
    ) as error:  # the loader lets KeyError, binascii.Error, ... through for damaged entries
        raise UsageProblem(
            f"kubeconfig {name}, context {context}: {' '.join(str(error).split())}"
        ) from None
    finally:
        logging.disable(logging.NOTSET)
    try:
        _take_from_files(configuration)
    except (ssl.SSLError, OSError) as error:
        raise UsageProblem(
            f"kubeconfig {name}, context {context}: its certificates or key cannot be used: {error}"
        ) from None
    finally:
        while _HIDDEN:
            _HIDDEN.popitem()[1].close()
    return configuration


_HIDDEN: dict[str, Any] = {}
"""What the official client has written for TLS and nobody has read yet: open files by their
paths."""


def _write_hidden(content: str | bytes, *_: Any, **__: Any) -> str:
    """Write a key or a certificate for the official client, whose own way leaves files in TMPDIR.

    The file is in memory; where the system has none there (macOS), it is removed once it is loaded.
    """
    file: Any
    if hasattr(os, "memfd_create"):
        file = os.fdopen(os.memfd_create("kubeconfig"), "wb")
        path = f"/proc/self/fd/{file.fileno()}"
    else:
        file = NamedTemporaryFile()  # noqa: SIM115
        path = str(file.name)
    file.write(content.encode() if isinstance(content, str) else content)
    file.flush()
    _HIDDEN[path] = file
    return path


def _take_from_files(configuration: Any) -> None:
    """Load what was written for the official client, so that it needs no file.

    Its ``tls`` is a context where it has a client's key.  Files that the user named are left to the
    client, which reads them for each connection: they may be renewed.  Raises ssl.SSLError and
    OSError where one cannot be used.
    """
    context = tls(configuration) if configuration.host.startswith("https:") else None
    hidden = {field for field in FILES if getattr(configuration, field) in _HIDDEN}
    if "ssl_ca_cert" in hidden:
        authority = Path(configuration.ssl_ca_cert).read_bytes()
        configuration.ca_cert_data = authority.decode(
            "ascii", "ignore"
        )  # beyond the certificates may be comments
        configuration.ssl_ca_cert = None
    configuration.tls = None
    if hidden & {"cert_file", "key_file"}:
        configuration.tls = context
        configuration.cert_file = None
        configuration.key_file = None


def tls(configuration: Any) -> ssl.SSLContext:
    """Return the TLS context that a configuration describes."""
    context = ssl.create_default_context(
        cafile=configuration.ssl_ca_cert, cadata=configuration.ca_cert_data
    )
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif configuration.assert_hostname is False:
        context.check_hostname = False
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, configuration.key_file)
    return context
