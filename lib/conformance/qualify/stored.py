# SPDX-License-Identifier: Apache-2.0
"""Reports in the form that gates, comparisons and reruns need, and functions that read them from
files.

Stored reports (``conformance.json``) have schema 3 or 2. Schema 1 is also read, as far as it has
the data.
"""

import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any

from conformance.catalog import Claim, Modality
from conformance.errors import UsageProblem
from conformance.model import SCHEMA_VERSION
from conformance.model.claim import ClaimResult
from conformance.model.codec import from_plain
from conformance.model.facts import Facts
from conformance.model.installed import Installed
from conformance.model.verdict import ClaimKind, ClaimVerdict
from conformance.verdicts.claims import ClaimOutcome

SCHEMAS = ("1", "2", "3")


@dataclass(frozen=True, kw_only=True)
class Report:
    """A report by its claims: the report of the run that ends now, or a stored report."""

    schema: str = SCHEMA_VERSION
    where: str = "this run"
    """The report's name in messages."""
    run: Mapping[str, Any]
    facts: Facts | None
    claims: Mapping[str, ClaimOutcome]
    """The claims by id."""
    statistics: Mapping[str, Any] = field(default_factory=dict)
    installed: Mapping[str, Any] = field(default_factory=dict)
    """:class:`Installed` in its JSON form."""
    suite: Mapping[str, str] = field(default_factory=dict)
    """Version, commit, catalog and sets of the suite that judged."""
    plain: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The document as it is stored in ``conformance.json``."""

    @property
    def evidence(self) -> str:
        """Return ``lab``, ``field``, or an empty text if no cluster was read."""
        return str(self.run.get("evidence") or "")

    @property
    def cut_short(self) -> str:
        """Return the reason why the run did not reach its end; empty if it did."""
        return str(self.run.get("cut_short") or "")

    @property
    def selection(self) -> str:
        """Return the selection of a quick run; empty for any other run."""
        return str(self.run.get("selection") or "")

    @property
    def unverified(self) -> str:
        """Return the reason why the evidence may come from another cluster than the named cluster;
        empty if it cannot."""
        return str(self.run.get("unverified") or "")

    @property
    def mode(self) -> str:
        """Return the networking mode of the cluster, or ``unknown``."""
        return (self.facts.mode.value if self.facts else None) or "unknown"

    @property
    def builds(self) -> tuple[str, ...]:
        """Return the Windows builds of the cluster's nodes, each once."""
        nodes = self.facts.by_os("windows") if self.facts else ()
        return tuple(sorted({node.build for node in nodes if node.build}))


def read(path: Path) -> Report:
    """Return a report from its file, or from the folder of its run. Raise UsageProblem with a
    message of one line."""
    file = path / "conformance.json" if path.is_dir() else path
    try:
        # programs on Windows may put a byte order mark first
        plain = json.loads(file.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise UsageProblem(f"report {file} does not exist") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageProblem(
            f"report {file} cannot be read: {getattr(error, 'strerror', None) or error}"
        ) from None
    except (ValueError, RecursionError) as error:
        raise UsageProblem(f"report {file} is not JSON: {error}") from None
    return parse(plain, str(file))


def reports_in(path: Path) -> list[Path]:
    """Return the reports that a path names: a file, a run's folder, or a folder of runs at any
    depth.  Raise UsageProblem.
    """
    if not path.is_dir() or (path / "conformance.json").exists():
        return [path]
    found = {file.resolve(): file for file in sorted(path.rglob("conformance.json"))}
    if not found:
        raise UsageProblem(f"{path} contains no report (conformance.json)")
    return list(found.values())


def parse(plain: Any, where: str) -> Report:
    """Return a report from its JSON form.  Raise UsageProblem."""
    schema = plain.get("schema_version") if isinstance(plain, dict) else None
    if schema not in SCHEMAS:
        known = ", ".join(SCHEMAS[:-1]) + f" or {SCHEMAS[-1]}"
        raise UsageProblem(
            f"report {where} is not a conformance.json of schema {known} (schema_version "
            f"{schema!r})"
        )
    try:
        if not all(isinstance(each, dict) for each in _objects(plain)):
            raise TypeError("a part has another shape")
        claims = [_claim(claim) for claim in plain["claims"]]
        return Report(
            schema=schema,
            where=where,
            run=plain["run"],
            facts=_facts(plain["facts"]) if plain["facts"] is not None else None,
            claims={outcome.claim.id: outcome for outcome in claims},
            statistics=plain.get("statistics") or {},
            installed=plain.get("installed") or {},
            suite=plain.get("suite") or {},
            plain=plain,
        )
    except KeyError as error:
        raise UsageProblem(f"report {where} is damaged: it lacks {error}") from None
    except (TypeError, ValueError, AttributeError) as error:
        raise UsageProblem(f"report {where} is damaged: {error}") from None


def _objects(plain: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the parts of a report that must be objects."""
    return itertools.chain(
        (plain.get(part) or {} for part in ("run", "suite", "statistics", "installed")),
        *(plain.get(part) or () for part in ("claims", "tests", "images")),
    )


def _facts(plain: Mapping[str, Any]) -> Facts:
    """Return the facts of a report, even if a suite version with fewer or other facts wrote it."""
    known = {item.name for item in fields(Facts)}
    unknown = {"value": None, "source": "not known: the run did not read this fact"}
    reported = {name: value for name, value in plain.items() if name in known}
    since = {
        item.name: unknown
        for item in fields(Facts)
        if item.name not in reported and item.default is item.default_factory is MISSING
    }
    return from_plain(Facts, since | reported)


def _claim(plain: Mapping[str, Any]) -> ClaimOutcome:
    claim = Claim(
        id=plain["id"],
        area=plain["area"],
        statement=plain["statement"],
        kind=ClaimKind(plain["kind"]),
        modality=Modality(plain.get("modality") or "always"),
        sources=(),
        verify="",
        tags=frozenset(),
    )
    return ClaimOutcome(
        claim=claim,
        verdict=ClaimVerdict(plain["verdict"]) if plain["verdict"] else None,
        reason=plain["reason"],
        remedy=plain["remedy"],
        results=tuple(from_plain(ClaimResult, result) for result in plain["results"]),
        missing=tuple(plain["missing_parts"]),
        flaky=bool(plain.get("flaky")),
    )


def versions(installed: Installed) -> dict[tuple[str, str], str]:
    """Map each workload and container to its running versions; the text includes digests if a tag
    was moved."""
    found: dict[tuple[str, str], set[str]] = {}
    for component in installed.components:
        found.setdefault((component.workload, component.container), set()).add(
            f"{component.version} {component.digest[:19]}".strip()
        )
    return {what: ", ".join(sorted(names)) for what, names in found.items()}
