"""The catalog: every documented, testable statement about Calico for Windows, as data, and what follows from it.

``data/*.yaml`` holds the claims by area; nothing here knows how a claim is tested.  Loaded once, when first asked for.
"""

from conformance.catalog.applicability import (
    ALL,
    Applicability,
    Applies,
    NotApplicable,
    Undecided,
    applicability,
    direct_server_return,
    keeps_clients,
)
from conformance.catalog.claims import Claim, Conditions, Isolation, IsolationKind, Modality, Needs, Source
from conformance.catalog.coverage import Coverage, coverage
from conformance.catalog.loading import Catalog, CatalogError, catalog, conditions, digest, load
from conformance.catalog.tables import Row, row, tables
from conformance.catalog.versions import NEWEST, Range, Version

__all__ = [
    "ALL",
    "NEWEST",
    "Applicability",
    "Applies",
    "Catalog",
    "CatalogError",
    "Claim",
    "Conditions",
    "Coverage",
    "Isolation",
    "IsolationKind",
    "Modality",
    "Needs",
    "NotApplicable",
    "Range",
    "Row",
    "Source",
    "Undecided",
    "Version",
    "applicability",
    "catalog",
    "conditions",
    "coverage",
    "digest",
    "direct_server_return",
    "keeps_clients",
    "load",
    "row",
    "tables",
]
