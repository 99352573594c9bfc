# SPDX-License-Identifier: Apache-2.0
"""Reads the catalog's YAML into typed claims; errors name file and line.

It parses YAML nodes instead of plain values, so that every error message has a line number. Loading
the whole catalog takes some 20 ms with libyaml, and ten times as long without it.
"""

import functools
import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import yaml

from conformance.catalog.claims import (
    Claim,
    Conditions,
    Isolation,
    IsolationKind,
    Modality,
    Needs,
    Source,
)
from conformance.catalog.versions import Range
from conformance.model.claim import ClaimKind

DATA = Path(__file__).with_name("data")
LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's loader if PyYAML contains it, since it is ten times as fast; otherwise PyYAML's own
loader."""
_ISSUE = re.compile(r"(?P<repository>[\w.-]+(?:/[\w.-]+)?)#(?P<number>\d+)")
_ISOLATION = re.compile(r"(?P<kind>[a-z-]+)(?:\((?P<os>linux|windows)\))?")
_ID = re.compile(r"[A-Z]+-\d+")
E = TypeVar("E")


class CatalogError(Exception):
    """An error in the catalog itself: ``file:line: problem``."""


class Catalog(Mapping[str, Claim]):
    """All claims by id, in the order of their areas."""

    def __init__(self, claims: Sequence[Claim], tags: Mapping[str, str]) -> None:
        self._claims = {claim.id: claim for claim in claims}
        self.tags = dict(tags)
        """The meaning of each tag."""

    def __getitem__(self, claim: str) -> Claim:
        return self._claims[claim]

    def __iter__(self) -> Iterator[str]:
        return iter(self._claims)

    def __len__(self) -> int:
        return len(self._claims)


@functools.cache
def field_evidence() -> Mapping[str, Sequence[str]]:
    """Return the files of evidence from real nodes, keyed by the ``CLAIM`` or ``CLAIM: PART`` that
    the evidence shows."""
    text = DATA.with_name("field-evidence.yaml").read_text(encoding="utf-8")
    found: Mapping[str, Sequence[str]] = yaml.load(text, LOADER)
    return found


@functools.cache
def catalog() -> Catalog:
    """Return the packaged catalog.  Raise CatalogError."""
    return load(DATA)


@functools.cache
def digest() -> str:
    """Return the SHA-256 of the packaged catalog's files: reports with the same digest were
    judged by the same claims.
    """
    found = hashlib.sha256()
    for path in (*sorted(DATA.glob("*.yaml")), DATA.with_name("tables.yaml")):
        found.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()


def load(folder: Path) -> Catalog:
    """Return a catalog from a folder: documents.yaml, tags.yaml, and a file for each area. Raise
    CatalogError."""
    documents = _documents(folder / "documents.yaml")
    tags = {
        key: str(value.value)
        for key, value in _fields(_compose(folder / "tags.yaml"), "tags.yaml").items()
    }
    claims: dict[str, Claim] = {}
    for path in sorted(folder.glob("*.yaml")):
        if path.name in {"documents.yaml", "tags.yaml"}:
            continue
        file = _fields(_compose(path), path.name, known=("area", "claims"))
        for node in _sequence(file["claims"], path.name):
            claim = _claim(node, path.name, str(file["area"].value), documents, tags)
            if claim.id in claims:
                raise CatalogError(
                    f"{claim.origin}: claim {claim.id} already exists in {claims[claim.id].origin}"
                )
            claims[claim.id] = claim
    return Catalog(list(claims.values()), tags)


@dataclass(frozen=True)
class _Documents:
    titles: Mapping[str, tuple[str, str]]
    repositories: Mapping[str, str]

    def source(self, node: Any, file: str) -> Source:
        """Return a source, written ``requirements v3.16-v3.32``, ``source felix/dataplane``,
        ``calico#10199`` or ``owner/name#1``.
        """
        text = str(node.value)
        issue = _ISSUE.fullmatch(text)
        if issue:
            short = issue["repository"]
            repository = self.repositories.get(short, short)
            if "/" not in repository:
                raise _error(
                    node, file, f"source {text!r}: unknown repository {short!r}; see documents.yaml"
                )
            return Source(
                f"{repository}#{issue['number']}",
                f"https://github.com/{repository}/issues/{issue['number']}",
            )
        key, _, where = text.partition(" ")
        if key not in self.titles:
            raise _error(
                node, file, f"source {text!r}: neither a document of documents.yaml nor an issue"
            )
        title, url = self.titles[key]
        return Source(title, url, where)


def _documents(path: Path) -> _Documents:
    root = _fields(_compose(path), path.name, known=("documents", "repositories"))
    titles = {}
    for key, node in _fields(root["documents"], path.name).items():
        entry = _fields(node, path.name, known=("title", "url"))
        titles[key] = (str(entry["title"].value), str(entry["url"].value))
    names = {key: str(node.value) for key, node in _fields(root["repositories"], path.name).items()}
    return _Documents(titles, names)


_REQUIRED = ("id", "statement", "kind", "sources", "tags", "verify")


def _own_tags(node: Any, file: str, ident: str, tags: Mapping[str, str]) -> frozenset[str]:
    """Return the tags that a claim names. Raise CatalogError for a tag that tags.yaml does not
    have."""
    own = {_text(tag, file): tag for tag in _sequence(node, file)}
    for tag, where in own.items():
        if tag not in tags:
            raise _error(where, file, f"{ident}: unknown tag {tag!r}; see tags.yaml")
    return frozenset(own)


def _claim(
    node: Any, file: str, area: str, documents: _Documents, tags: Mapping[str, str]
) -> Claim:
    entry = _fields(node, file, known=_REQUIRED, optional=(*_OPTIONAL,))
    ident = _text(entry["id"], file)
    if not _ID.fullmatch(ident):
        raise _error(entry["id"], file, f"id {ident!r}: expected capitals, a hyphen and a number")
    own_tags = _own_tags(entry["tags"], file, ident, tags)
    given = {name: read(entry[name], file) for name, read in _OPTIONAL.items() if name in entry}
    claim = Claim(
        id=ident,
        area=area,
        statement=_text(entry["statement"], file),
        kind=_read(ClaimKind, entry["kind"], file),
        sources=tuple(
            documents.source(source, file) for source in _sequence(entry["sources"], file)
        ),
        verify=_text(entry["verify"], file),
        tags=own_tags,
        origin=f"{file}:{node.start_mark.line + 1}",
        **{"modality": Modality.ALWAYS, **given},
    )
    derived = {
        "windows": claim.needs.windows > 0,
        "isolation": claim.denial,
        "limitations": claim.kind in (ClaimKind.LIMITATION, ClaimKind.KNOWN_ISSUE),
    }
    return replace(claim, tags=own_tags | {tag for tag, fits in derived.items() if fits})


_WORDS = {
    "modes": ("vxlan", "bgp", "policy-only", "mixed"),
    "datastores": ("kubernetes", "etcd"),
    "installs": ("operator", "manifest", "manual", "platform", "agent"),
    "windows_plane": ("overlay", "l2bridge"),
    "platforms": None,
    "cnis": None,
    "ipam": None,
}
_RANGES = ("calico", "kubernetes", "windows_builds")
_FLAGS = ("dsr", "single_network", "mesh", "dual_stack", "two_nodes", "kube_proxy_pods")


def conditions(plain: Mapping[str, Any]) -> Conditions:
    """Return conditions from a part's ``applies``, ``{"modes": ["vxlan"]}``.  Raise CatalogError."""
    try:
        text = yaml.safe_dump(dict(plain))
    except yaml.YAMLError as error:
        raise CatalogError(
            f"{plain!r}: expected words, lists of words, true or false: {error}"
        ) from None
    return _conditions(yaml.compose(text, Loader=LOADER), "applies")


def _conditions(node: Any, file: str) -> Conditions:
    values: dict[str, Any] = {}
    for key, value in _fields(node, file, optional=(*_WORDS, *_RANGES, *_FLAGS)).items():
        if key in _RANGES:
            values[key] = _read(Range, value, file)
        elif key in _FLAGS:
            values[key] = _flag(value, file)
        else:
            words = tuple(_text(word, file) for word in _sequence(value, file))
            allowed = _WORDS[key]
            if allowed and not set(words) <= set(allowed):
                raise _error(
                    value, file, f"{key} {list(words)}: expected some of {', '.join(allowed)}"
                )
            values[key] = words
    return Conditions(**values)


def _needs(node: Any, file: str) -> Needs:
    readers: dict[str, Callable[[Any, str], Any]] = {
        "linux": functools.partial(_read, int),
        "windows": functools.partial(_read, int),
        "host_network": _flag,
        "host_process": _flag,
        "v3_api": _flag,
        "calico_policy": _flag,
        "calicoctl": _flag,
        "vni_delivery": _flag,
        "node_fill": _flag,
        "lab": _flag,
        "load_balancer": _flag,
        "external_target": _flag,
        "outside": _text,
    }
    given = _fields(node, file, optional=(*readers,))
    return Needs(**{key: readers[key](value, file) for key, value in given.items()})


def _isolation(node: Any, file: str) -> Isolation:
    text = _text(node, file)
    match = _ISOLATION.fullmatch(text)
    kinds = {str(kind) for kind in IsolationKind}
    if not match or match["kind"] not in kinds:
        raise _error(node, file, f"isolation {text!r}: expected one of {', '.join(sorted(kinds))}")
    if (match["kind"] == IsolationKind.NODE_EXCLUSIVE) != bool(match["os"]):
        raise _error(
            node,
            file,
            f"isolation {text!r}: node-exclusive needs an OS in parentheses, and no other kind has "
            "one",
        )
    return Isolation(IsolationKind(match["kind"]), match["os"])  # type: ignore[arg-type]


def _compose(path: Path) -> Any:
    try:
        return yaml.compose(path.read_text(encoding="utf-8"), Loader=LOADER)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise CatalogError(
            f"{path.name}:{mark.line + 1 if mark else 1}: not YAML: {error}"
        ) from None


def _error(node: Any, file: str, message: str) -> CatalogError:
    line = node.start_mark.line + 1 if node is not None else 1
    return CatalogError(f"{file}:{line}: {message}")


def _fields(
    node: Any, file: str, known: Sequence[str] = (), optional: Sequence[str] | None = None
) -> dict[str, Any]:
    """Return the mapping's keys with their value nodes. Raise CatalogError for missing or unknown
    keys.

    Every key in ``known`` must be present. If ``known`` or ``optional`` is given, no further key is
    allowed.
    """
    if not isinstance(node, yaml.MappingNode):
        raise _error(node, file, "expected a mapping")
    found: dict[str, Any] = {}
    for key, value in node.value:
        if key.value in found:
            raise _error(key, file, f"{key.value!r} is given twice")
        if (known or optional is not None) and key.value not in (*known, *(optional or ())):
            raise _error(
                key,
                file,
                f"unknown key {key.value!r}; the known keys are "
                f"{', '.join((*known, *(optional or ())))}",
            )
        found[key.value] = value
    missing = [key for key in known if key not in found]
    if missing:
        raise _error(node, file, f"missing: {', '.join(missing)}")
    return found


def _sequence(node: Any, file: str) -> list[Any]:
    if not isinstance(node, yaml.SequenceNode):
        raise _error(node, file, "expected a list")
    return list(node.value)


def _text(node: Any, file: str) -> str:
    if not isinstance(node, yaml.ScalarNode) or not str(node.value).strip():
        raise _error(node, file, "expected text")
    return str(node.value)


def _flag(node: Any, file: str) -> bool:
    text = _text(node, file)
    if text not in {"true", "false"}:
        raise _error(node, file, f"expected true or false, found {text!r}")
    return text == "true"


def _read(how: Callable[[str], E], node: Any, file: str) -> E:
    text = _text(node, file)
    try:
        return how(text)
    except ValueError as error:
        raise _error(node, file, str(error)) from None


_OPTIONAL: Mapping[str, Callable[[Any, str], Any]] = {
    "holds": _text,
    "fails": _text,
    "danger": _text,
    "modality": functools.partial(_read, Modality),
    "applies": _conditions,
    "isolation": _isolation,
    "active": _isolation,
    "denial": _flag,
    "needs": _needs,
}
"""The function that reads each optional field of a claim; :class:`Claim` has the defaults."""
