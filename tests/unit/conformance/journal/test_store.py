# SPDX-License-Identifier: Apache-2.0
"""The ConfigMaps that count as journals of runs."""

from __future__ import annotations

from typing import Any, cast

import pytest

from conformance.journal.store import JOURNAL_LABEL, journals
from conformance.kube.client import Kube
from conformance.kube.ownership import MANAGED_BY, RUN_LABEL, Ownership

OURS = {**Ownership("ab12", "gw0").labels, JOURNAL_LABEL: "true"}


class Listing:
    """An API server that has one ConfigMap and selects by labels as Kubernetes does."""

    def __init__(self, labels: dict[str, str], name: str = "journal-ab12") -> None:
        self.labels = labels
        self.found = {"metadata": {"name": name, "labels": labels}}

    def objects(self, api: str, kind: str, namespace: str, *, labels: str) -> list[dict[str, Any]]:
        for term in labels.split(","):
            key, equals, value = term.partition("=")
            if key not in self.labels or (equals and self.labels[key] != value):
                return []
        return [self.found]


@pytest.mark.parametrize(
    ("labels", "name", "is_one"),
    [
        pytest.param(OURS, "journal-ab12", True, id="as a run writes it"),
        pytest.param(OURS | {RUN_LABEL: "cd34"}, "journal-ab12", False, id="another run's label"),
        pytest.param(OURS | {MANAGED_BY[0]: "helm"}, "journal-ab12", False, id="another owner"),
        pytest.param(OURS | {JOURNAL_LABEL: "no"}, "journal-ab12", False, id="no journal"),
        pytest.param(OURS, "lease-ab12", False, id="another name"),
    ],
)
def test_a_journal_is_found_by_the_labels_and_the_name_that_its_run_gave_it(
    labels: dict[str, str], name: str, is_one: bool
) -> None:
    assert bool(journals(cast(Kube, Listing(labels, name)))) is is_one
