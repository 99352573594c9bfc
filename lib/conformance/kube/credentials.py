# SPDX-License-Identifier: Apache-2.0
"""The credentials of a kubeconfig's user, found in client-go's order.

The user's own token, password or certificate comes first; then a credential plugin's output; then
oidc's id-token. A source is read again when its credentials are due. Plugins get no standard input,
since several processes of a run need their credentials.
"""

import base64
import itertools
import json
import os
import re
import socket
import ssl
import subprocess
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

from conformance.errors import UsageProblem
from conformance.kube.fields import list_at, mapping_at
from conformance.kube.kubeconfig import Chosen
from conformance.scrubbing import HIDDEN, scrubbed

TOKEN_FILE_LASTS = 60.0
"""Seconds after which a token's file is read again (client-go: a minute)."""
WITHIN = 60.0
"""The time limit, in seconds, for a credential plugin, or for oidc's issuer; a plugin that waits
for a person must be called beforehand."""
SUBCOMMAND = re.compile(r"[a-z][a-z-]{0,24}")
"""Matches a word of a command line that is no value, such as ``get-token``."""
PARTS = re.compile(r"[\s=,;:'\"]+")
LONG = 20
"""The least number of characters of a word that may be a token."""
SHORT = 4
"""The least number of characters of a value that is searched for in a plugin's output."""
API = "client.authentication.k8s.io"
LONE = "a client certificate without its key, or a key without its certificate"
GONE = {
    "gcp": "gke-gcloud-auth-plugin (gcloud container clusters get-credentials)",
    "azure": "kubelogin convert-kubeconfig",
    "openstack": "client-keystone-auth",
}
"""The replacements of auth-providers that client-go no longer has."""


@dataclass(frozen=True)
class Credential:
    """The credentials of a user at one moment."""

    authorization: str = field(default="", repr=False)
    """Value of the Authorization header."""
    certificate: bytes = field(default=b"", repr=False)
    key: bytes = field(default=b"", repr=False)
    """The client's certificate and key in PEM, unless both are in files of the user."""
    ends: datetime | None = None

    def read(self) -> "Credential":
        """Return the credentials: a kubeconfig's fixed values need no renewal."""
        return self


@dataclass(frozen=True)
class TokenFile:
    """A token that another program writes into a file."""

    chosen: Chosen
    beside: Credential
    """The kubeconfig's other credentials; their token is used if the file has no token."""

    def read(self) -> Credential:
        """Return the file's token."""
        path = self.chosen.given["tokenFile"]
        bearer = self.beside.authorization
        why = "it is empty"
        try:
            if token := Path(path).read_text().strip():
                bearer = f"Bearer {token}"
        except (OSError, UnicodeError) as error:
            why = getattr(error, "strerror", None) or "it is not text"
        if not bearer:
            raise self.chosen.problem(f"tokenFile {path}: {why}")
        ends = datetime.now(UTC) + timedelta(seconds=TOKEN_FILE_LASTS)
        return replace(self.beside, authorization=bearer, ends=ends)


def source_of(chosen: Chosen) -> "Source":
    """Return the source of the credentials of a context's user. Credentials that never change are
    their own source.

    Raise UsageProblem for contradictions and removed auth-providers, as kubectl does.
    """
    import certifi  # a dependency of the official client

    given = chosen.given
    provider = mapping_at(given, "auth-provider")
    if (named := str(provider.get("name") or "oidc")) != "oidc":
        instead = GONE.get(named, "a credential plugin (exec)")
        raise chosen.problem(f"Kubernetes no longer supports auth-provider {named}; use {instead}")
    held = _held(chosen)
    if given.get("tokenFile"):
        return TokenFile(chosen, held)
    if held != Credential() or not (given.get("exec") or provider):
        return held
    if given.get("exec"):
        return Plugin(chosen)
    usual = ssl.get_default_verify_paths().cafile or certifi.where()
    beside = {
        "idp-certificate-authority": usual,
        "client-secret": "",
        # an expired token, for users who have only a refresh-token
        "id-token": "e30.eyJleHAiOjF9.x",
    }
    return Oidc(chosen, beside | mapping_at(provider, "config"))


def _held(chosen: Chosen) -> Credential:
    """Return the credentials that are written in the kubeconfig, or in files with a certificate."""
    given = chosen.given
    token = str(given.get("token") or "").strip()
    pair = ":".join(str(given.get(name) or "") for name in ("username", "password"))
    basic = base64.b64encode(pair.encode()).decode() if pair != ":" else ""
    certificate, key = (_pem(chosen, name) for name in ("client-certificate", "client-key"))
    if token and basic:
        raise chosen.problem("it has a token and a password; only one of them is allowed")
    if bool(certificate) != bool(key):
        raise chosen.problem(f"it has {LONE}")
    own = f"Bearer {token}" if token else f"Basic {basic}" if basic else ""
    return Credential(own, certificate, key)


def _pem(chosen: Chosen, name: str) -> bytes:
    """Return a client's certificate or key, from the kubeconfig or from a file of the user."""
    if chosen.given.get(f"{name}-data"):
        return chosen.decoded(f"{name}-data")
    return Path(path).read_bytes() if (path := chosen.given.get(name)) else b""


@dataclass(frozen=True)
class Plugin:
    """A credential plugin (KEP 541), run whenever new credentials are needed."""

    chosen: Chosen

    def read(self) -> Credential:
        """Run the plugin, and return the token or the certificate that it prints."""
        plugin = mapping_at(self.chosen.given, "exec")
        command = self._command()
        version = str(plugin.get("apiVersion") or "")
        if not command[0] or not version.startswith(f"{API}/v1"):
            raise self._problem(f"is not usable: command {command[0]!r}, apiVersion {version!r}")
        if plugin.get("interactiveMode") == "Always":
            raise self._problem(
                "needs a terminal (interactiveMode: Always); use credentials that need no terminal"
            )
        text = {"cluster": _cluster(self.chosen)} if plugin.get("provideClusterInfo") else {}
        spec = {"interactive": False, **text}
        info = {"apiVersion": version, "kind": "ExecCredential", "spec": spec}
        environment = self._own() | {"KUBERNETES_EXEC_INFO": json.dumps(info)}
        output, words = self._run(command, environment)
        return self._credential(output, words, version)

    def _command(self) -> list[str]:
        """Return the program and its arguments."""
        program = str(self.chosen.given["exec"].get("command") or "")
        return [program, *map(str, list_at(self.chosen.given, "exec", "args"))]

    def _own(self) -> dict[str, str]:
        """Return the variables that the kubeconfig sets for a plugin."""
        variables = list_at(self.chosen.given, "exec", "env")
        return {str(item.get("name")): str(item.get("value") or "") for item in variables}

    def _run(self, command: Sequence[str], environment: Mapping[str, str]) -> tuple[str, str]:
        """Return a plugin's output, and the end of its messages on standard error."""
        try:
            done = subprocess.run(
                command,
                env={**os.environ, **environment},
                text=True,
                errors="replace",
                capture_output=True,
                stdin=subprocess.DEVNULL,
                timeout=WITHIN,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise self._problem(
                f"did not end within {WITHIN:.0f} s; log in before the run"
            ) from None
        except (OSError, ValueError) as error:  # ValueError: an argument has a zero byte
            hint = mapping_at(self.chosen.given, "exec").get("installHint") or "install it"
            raise self._problem(
                f"cannot be run: {getattr(error, 'strerror', None) or error}; {hint}"
            ) from None
        words = self._clean(done.stderr)[-500:]
        if done.returncode:
            raise self._problem(
                f"failed with exit code {done.returncode}: {words or 'it printed nothing'}"
            )
        return done.stdout, words

    def _credential(self, output: str, words: str, version: str) -> Credential:
        """Return the credential in a plugin's output."""
        try:
            answer = json.loads(output)
            reported = [answer["kind"], answer["apiVersion"]]
            status = mapping_at(answer, "status")
            fields = ("token", "clientCertificateData", "clientKeyData")
            token, certificate, key = (str(status.get(name) or "").strip() for name in fields)
            until = str(status.get("expirationTimestamp") or "").replace("Z", "+00:00")
            ends = datetime.fromisoformat(until).astimezone(UTC) if until else None
        except (ValueError, KeyError, TypeError, AttributeError):
            first = self._clean(output.strip().partition("\n")[0].partition("{")[0]).split()
            shown = [HIDDEN if len(word) >= LONG or not first[1:] else word for word in first]
            begin = " ".join(shown)[:60]  # a long word, or the only word, may be the token
            raise self._problem(
                f"printed no ExecCredential; its output begins with {begin!r}"
            ) from None
        if reported != ["ExecCredential", version]:
            raise self._problem(
                f"printed {reported[0]} of {reported[1]}, but {version} was requested"
            )
        if bool(certificate) != bool(key):
            raise self._problem(f"returned {LONE}")
        if not (token or key):
            raise self._problem(f"returned neither a token nor a certificate: {words}".rstrip(": "))
        pem = certificate.encode()
        until_both = filter(None, (ends, end_of_certificate(pem)))
        bearer = f"Bearer {token}" if token else ""
        return Credential(bearer, pem, key.encode(), min(until_both, default=None))

    def _problem(self, text: str) -> UsageProblem:
        return self.chosen.problem(
            f"its credential plugin {_named(self._command())!r} {self._clean(text)}"
        )

    def _clean(self, text: str) -> str:
        """Return a text in one line, without the values that the kubeconfig passes to the
        plugin."""
        values = {*self._command()[1:], *self._own().values()}
        return _without(text, values.difference(_named(self._command()).split()))


def _named(command: Sequence[str]) -> str:
    """Return a command without the values of its arguments: ``login get --secret=...``."""
    program, *arguments = command
    words = [re.sub(r"\s.*", " ...", program, flags=re.DOTALL)]
    for before, argument in itertools.pairwise(["", *arguments]):
        name, assigned, _ = re.split(r"([=\s]|$)", argument, maxsplit=1)
        if argument.startswith("--") or (argument.startswith("-") and assigned):
            words.append(f"{name}{assigned}..." if assigned else name)
        elif argument.startswith("-"):  # a value may follow the letter directly, as in -pVALUE
            words.append(argument if len(argument) == 2 else f"{argument[:2]}...")
        else:
            is_word = not before.startswith("-") and SUBCOMMAND.fullmatch(argument)
            words.append(argument if is_word else "...")
    return " ".join(words)


def _without(text: str, values: Collection[str]) -> str:
    """Return a text in one line, without secrets, ``values`` and their parts."""
    ends = {
        end
        for value in values
        for end in (value, value.partition("=")[2], value.partition(" ")[2], value[2:].strip())
    }
    words = {
        word for value in values for word in PARTS.split(value) if not SUBCOMMAND.fullmatch(word)
    }
    for part in sorted(ends | words, key=len, reverse=True):
        text = text.replace(part, HIDDEN) if len(part) >= SHORT else text
    return " ".join(scrubbed(text).split())


def _cluster(chosen: Chosen) -> dict[str, Any]:
    """Return the description of the cluster for a plugin (``spec.cluster`` of ExecCredential)."""
    reported = dict(chosen.cluster)
    if authority := reported.pop("certificate-authority", None):
        pem = base64.b64encode(Path(authority).read_bytes())
        reported = {"certificate-authority-data": pem.decode()} | reported
    for extension in reported.pop("extensions", None) or ():
        if extension.get("name") == f"{API}/exec":
            reported["config"] = extension.get("extension")
    return reported


@dataclass(frozen=True)
class Oidc:
    """The auth-provider oidc: its id-token, and a new id-token from its issuer after expiry. The
    official client requests the new token. It verifies TLS by the authority in the kubeconfig, or
    else by this machine's authorities. Nothing is written into the kubeconfig.
    """

    chosen: Chosen
    config: dict[str, Any]
    """The provider's configuration; a refresh-token that the issuer replaced is stored here."""

    def read(self) -> Credential:
        """Return the id-token; get a new token if it has expired."""
        from kubernetes.client.configuration import Configuration
        from kubernetes.config import kube_config

        issuer = str(self.config.get("idp-issuer-url") or "")
        whole = {
            "clusters": [{"name": "c", "cluster": {"server": issuer}}],
            "users": [
                {"name": "u", "user": {"auth-provider": {"name": "oidc", "config": self.config}}}
            ],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "c",
        }
        why = "the address does not begin with https://"
        socket.setdefaulttimeout(WITHIN)  # the official client has no time-out here
        try:
            if issuer.startswith("https://"):
                kube_config.load_kube_config_from_dict(  # type: ignore[no-untyped-call]
                    whole, client_configuration=Configuration()
                )
                why = "the issuer refused the request"
        except Exception as error:  # errors of TLS, of OAuth, or of damaged entries
            held = [str(self.config.get(name) or "") for name in ("client-secret", "refresh-token")]
            why = _without(str(error), held)
        finally:
            socket.setdefaulttimeout(None)
        token = str(self.config["id-token"]).strip()
        if (ends := end_of(token)) and ends <= datetime.now(UTC):
            raise self.chosen.problem(
                f"its oidc id-token has expired, and {issuer} issued no new id-token: {why}"
            )
        return Credential(f"Bearer {token}", ends=ends)


Source = Credential | TokenFile | Plugin | Oidc


def impersonation(chosen: Chosen) -> list[tuple[str, str]]:
    """Return the headers by which requests are made in the name of another user; a key may occur
    repeatedly.

    Raise UsageProblem for groups, uid or extra without a user, which kubectl refuses.
    """
    given = chosen.given
    name = str(given.get("as") or "")
    groups = list_at(given, "as-groups")
    extra = mapping_at(given, "as-user-extra")
    if not name and (groups or extra or given.get("as-uid")):
        raise chosen.problem("as-groups, as-uid and as-user-extra need a user in `as`")
    named: dict[str, list[Any]] = {"User": [name], "Uid": [given.get("as-uid")], "Group": groups}
    named |= {"Extra-" + quote(str(key), safe="!#$&*+^`|'"): extra[key] for key in extra}
    return [
        (f"Impersonate-{key}", str(value))
        for key, values in named.items()
        for value in values
        if value
    ]


PEM = rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----"
VALIDITY = re.compile(
    rb"\x30.(?:\x17\x0d\d{12}|\x18\x0f\d{14})Z(?:\x17\x0d|\x18\x0f)(?P<ends>\d{12,14})Z", re.DOTALL
)
"""Matches a certificate's notBefore and notAfter in DER, the only place with two times in a row
(RFC 5280, 4.1.2.5)."""
YEAR_WITH_CENTURY = 14
"""The number of digits of a GeneralizedTime; a UTCTime has no century, and its years before 50 are
20xx."""


def end_of(token: str) -> datetime | None:
    """Return when a token expires. Return None if the token is no JSON Web Token (RFC 7519), or has
    no end."""
    try:
        body = token.split(".")[1]
        return datetime.fromtimestamp(
            float(json.loads(base64.urlsafe_b64decode(f"{body}==="))["exp"]), UTC
        )
    except (IndexError, KeyError, TypeError, ValueError, OverflowError):
        return None


def end_of_certificate(pem: bytes) -> datetime | None:
    """Return when a client certificate ends (``notAfter``, RFC 5280), read from the first
    certificate in the PEM text.

    Return None if there is no certificate, or if its end cannot be read.
    """
    first = re.search(PEM, pem, re.DOTALL)
    try:
        found = VALIDITY.search(ssl.PEM_cert_to_DER_cert(first[0].decode())) if first else None
    except ValueError:
        return None
    if found is None:
        return None
    text = found["ends"].decode()
    century = "" if len(text) == YEAR_WITH_CENTURY else "20" if text < "50" else "19"
    return datetime.strptime(f"{century}{text}Z", "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)
