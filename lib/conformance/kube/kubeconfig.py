# SPDX-License-Identifier: Apache-2.0
"""Kubeconfig files, read as client-go reads them (tools/clientcmd): merging, contexts, relative
paths.

Every fault of a file or a context is a UsageProblem of one line, raised before anything is
contacted.
"""

import base64
import binascii
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from conformance.errors import UsageProblem
from conformance.kube.fields import mapping_at

PATHS = ("certificate-authority", "client-certificate", "client-key", "tokenFile")
"""Fields that name files, relative to the folder of the kubeconfig that has them."""
EXTRA = "as-user-extra"
TYPES = {
    "as-groups": list,
    EXTRA: dict,
    "exec": dict,
    "auth-provider": dict,
    "auth-provider.config": dict,
    "exec.args": list,
    "exec.env": list,
}
"""Fields of a user that are not text."""
AUTHORITY = "certificate-authority"
INNER = {"contexts": "context", "clusters": "cluster", "users": "user"}
"""The field that has the content of an entry, for each list of a kubeconfig."""


@dataclass(frozen=True)
class Chosen:
    """A context of one or several kubeconfig files, with its cluster and its user."""

    files: str
    """The files, joined as in KUBECONFIG."""
    context: str
    server: str
    user: str
    """The user's name; empty if the context names no user, so that requests are anonymous."""
    cluster: Mapping[str, Any]
    given: Mapping[str, Any]
    """The contents of the user's entry."""

    @property
    def where(self) -> str:
        """Return the text by which messages name the context."""
        return f"kubeconfig {self.files}, context {self.context}"

    def decoded(self, key: str) -> bytes:
        """Return the content of a field in base64, ignoring line breaks. Raise UsageProblem."""
        data = re.sub(r"\s", "", str({**self.cluster, **self.given}[key]))
        try:
            return base64.b64decode(data.encode("ascii"), validate=True)
        except (binascii.Error, UnicodeError):
            raise UsageProblem(f"{self.where}: {key} is not base64") from None

    def problem(self, text: str) -> UsageProblem:
        """Return the error for a fault in the user's entry."""
        return UsageProblem(f"kubeconfig {self.files}, user {self.user}: {text}")


def choose(files: Sequence[Path], context: str | None) -> Chosen:
    """Return the context named ``context``, else the first current-context. Raise UsageProblem."""
    read = [_read(path) for path in files]
    name = ":".join(map(str, files))
    if all(part is None for part in read):
        raise UsageProblem(f"kubeconfig {name} is empty")
    parts = [part or {} for part in read]
    contexts, clusters, users = (_by_name(parts, files, kind) for kind in INNER)
    chosen = context or next(filter(None, (part.get("current-context") for part in parts)), None)
    pointed = contexts.get(str(chosen), {})
    cluster = pointed.get("cluster")
    user = pointed.get("user")
    to = clusters.get(str(cluster), {})
    given = users.get(str(user), {})
    server = _server(to, given)
    wrong = _mistyped(given)
    in_context = f"kubeconfig {name}: context {chosen!r} names"
    problems = (
        (not contexts, f"{name} is not a kubeconfig: it has no contexts"),
        (
            not chosen,
            f"kubeconfig {name} has no current-context; "
            f"choose one of {_names(contexts)} with --context",
        ),
        (
            chosen not in contexts,
            f"kubeconfig {name} has no context {chosen!r}; it has {_names(contexts)}",
        ),
        (
            cluster not in clusters,
            f"{in_context} cluster {cluster!r}, which the file does not define",
        ),
        (user and user not in users, f"{in_context} user {user!r}, which the file does not define"),
        (
            not server,
            f"kubeconfig {name}: cluster {cluster!r} has no server address "
            f"(found {to.get('server')!r})",
        ),
        (wrong, f"kubeconfig {name}, user {user!r}: {', '.join(wrong)}"),
        (
            not isinstance(to.get("insecure-skip-tls-verify", False), bool),
            f"kubeconfig {name}: cluster {cluster!r}: insecure-skip-tls-verify "
            "is neither true nor false",
        ),
        (
            to.get("insecure-skip-tls-verify") and _has(to, AUTHORITY),
            f"kubeconfig {name}: cluster {cluster!r} sets both certificate-authority and "
            "insecure-skip-tls-verify; remove one of them",
        ),
    )
    for fails, problem in problems:
        if fails:
            raise UsageProblem(problem)
    return Chosen(name, str(chosen), server, str(user or ""), cluster=to, given=given)


def _server(cluster: Mapping[str, Any], user: Mapping[str, Any]) -> str:
    """Return the server's URL, completed as client-go's ``DefaultServerURL`` does; an empty string
    if there is none.

    A scheme may be in capitals; ``HOST:PORT`` alone is HTTPS if anything of TLS is configured.
    """
    given = str(cluster.get("server") or "")
    scheme, separator, rest = given.partition("://")
    if separator:
        return f"{scheme.lower()}://{rest}" if scheme.lower() in ("http", "https") else ""
    is_tls = (
        _has(cluster, AUTHORITY)
        or _has(user, "client-certificate")
        or bool(cluster.get("insecure-skip-tls-verify"))
    )
    host, _, path = given.partition("/")
    return f"{'https' if is_tls else 'http'}://{host}" if host and not path else ""


def _has(entry: Mapping[str, Any], field: str) -> bool:
    """Return whether an entry names a file in this field, or contains the file's data."""
    return bool(entry.get(field) or entry.get(f"{field}-data"))


def _mistyped(given: Mapping[str, Any]) -> list[str]:
    """Return descriptions of the fields of a user's entry that have the wrong type."""
    flat = {**given}
    for key in ("exec", "auth-provider", EXTRA):
        inner = given.get(key)
        flat |= {f"{key}.{name}": inner[name] for name in inner} if isinstance(inner, dict) else {}
    types = TYPES | {key: list for key in flat if key.startswith(f"{EXTRA}.")}
    wrong = [
        f"{key} is not a {'list' if kind is list else 'mapping'}"
        for key, kind in types.items()
        if not isinstance(flat.get(key) or kind(), kind)
    ]
    if not wrong and not all(isinstance(one, dict) for one in flat.get("exec.env") or ()):
        return ["exec.env is not a list of mappings"]
    return wrong


def _read(path: Path) -> dict[str, Any] | None:
    """Return the content of a file; None if the file is empty."""
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
    except (yaml.YAMLError, ValueError) as error:  # ValueError: a date that does not exist
        mark = getattr(error, "problem_mark", None)
        line = f" line {mark.line + 1}" if mark else ""
        other = "it is not text" if isinstance(error, yaml.YAMLError) else str(error)
        reason = re.sub("(alias|tag) '.*'", r"\1", getattr(error, "problem", other))
        raise UsageProblem(f"kubeconfig {path}{line} is not YAML: {reason}") from None
    if content is None:
        return None
    if not isinstance(content, dict):
        raise UsageProblem(f"kubeconfig {path} is not a mapping")
    if (statement := [content.get("apiVersion", "v1"), content.get("kind", "Config")]) != [
        "v1",
        "Config",
    ]:
        raise UsageProblem(
            f"{path} is not a kubeconfig (v1, Config): it is {statement[0]}, {statement[1]}"
        )
    return content


def _by_name(
    parts: Sequence[Mapping[str, Any]], files: Sequence[Path], kind: str
) -> dict[str, dict[str, Any]]:
    """Return the contents of all entries of one kind, by name. If several files have an entry of
    that name, the first file counts, as with kubectl."""
    found: dict[str, dict[str, Any]] = {}
    for part, path in zip(parts, files, strict=True):
        entries = part.get(kind) or []
        if not isinstance(entries, list) or not all(
            isinstance(item, dict)
            and item.get("name")
            and isinstance(item.get(INNER[kind]) or {}, dict)
            for item in entries
        ):
            raise UsageProblem(f"kubeconfig {path}: {kind} is not a list of entries with a name")
        for entry in entries:
            found.setdefault(str(entry["name"]), _resolved(mapping_at(entry, INNER[kind]), path))
    return found


def _resolved(content: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Return an entry's content without empty fields. Its paths become absolute, from ``path``'s
    folder.

    A credential plugin's command is a path if it has a slash; else it is searched for in PATH.
    """
    folder = path.absolute().parent
    found = {key: value for key, value in content.items() if value not in ("", None)}
    found |= {key: str(folder / str(found[key])) for key in PATHS if key in found}
    plugin = found.get("exec")
    if isinstance(plugin, dict) and os.sep in (command := str(plugin.get("command") or "")):
        found["exec"] = {**plugin, "command": str(folder / command)}
    return found


def _names(entries: Mapping[str, Any]) -> str:
    return ", ".join(sorted(entries)) or "none"
