# SPDX-License-Identifier: Apache-2.0
"""The catalog: every documented, testable statement about Calico for Windows, as data.

``data/*.yaml`` contains the claims by area, and mentions no tests. The catalog is loaded once, on
first use.
"""

from conformance.catalog.applicability import ALL as ALL
from conformance.catalog.applicability import VERSION_REMEDY as VERSION_REMEDY
from conformance.catalog.applicability import Applicability as Applicability
from conformance.catalog.applicability import Applies as Applies
from conformance.catalog.applicability import NotApplicable as NotApplicable
from conformance.catalog.applicability import Undecided as Undecided
from conformance.catalog.applicability import applicability as applicability
from conformance.catalog.applicability import direct_server_return as direct_server_return
from conformance.catalog.applicability import keeps_clients as keeps_clients
from conformance.catalog.claims import Claim as Claim
from conformance.catalog.claims import Conditions as Conditions
from conformance.catalog.claims import Isolation as Isolation
from conformance.catalog.claims import IsolationKind as IsolationKind
from conformance.catalog.claims import Modality as Modality
from conformance.catalog.claims import Needs as Needs
from conformance.catalog.claims import Source as Source
from conformance.catalog.coverage import Coverage as Coverage
from conformance.catalog.coverage import coverage as coverage
from conformance.catalog.loading import Catalog as Catalog
from conformance.catalog.loading import CatalogError as CatalogError
from conformance.catalog.loading import catalog as catalog
from conformance.catalog.loading import conditions as conditions
from conformance.catalog.loading import digest as digest
from conformance.catalog.loading import load as load
from conformance.catalog.tables import Row as Row
from conformance.catalog.tables import row as row
from conformance.catalog.tables import tables as tables
from conformance.catalog.versions import KNOWN as KNOWN
from conformance.catalog.versions import NEWEST as NEWEST
from conformance.catalog.versions import NEXT as NEXT
from conformance.catalog.versions import Range as Range
from conformance.catalog.versions import Version as Version
