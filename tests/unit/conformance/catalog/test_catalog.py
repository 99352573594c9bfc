# SPDX-License-Identifier: Apache-2.0
"""The catalog holds every claim, is loaded with its lines, and decides from facts which claims are about a cluster."""

from __future__ import annotations

import gzip
import json
import re
import shutil
from pathlib import Path

import pytest

from conformance.catalog import (
    NEWEST,
    CatalogError,
    IsolationKind,
    Modality,
    Range,
    Version,
    catalog,
    coverage,
    load,
)
from conformance.catalog.loading import DATA
from conformance.model.claim import ClaimKind

REPORTED = Path(__file__).parents[3] / "golden" / "reports" / "healthy.json.gz"
"""A report of an earlier catalog: claims may join since, and none leaves."""
OTHER_KIND = {
    "ENC-1": "requirement", "ENC-6": "requirement", "VXLAN-7": "requirement", "BGP-4": "requirement",
    "PLAT-2": "requirement", "DS-2": "requirement", "IPAM-8": "capability", "IPAM-2": "capability",
    "FL-2": "recommendation", "XSTAT-1": "known issue",
}  # fmt: skip
"""Claims that have another kind since: a limitation that was only read became the requirement that it is, and an
unsupported combination is one that is not met."""

TAGS = {
    "vxlan": "VXLAN-1 VXLAN-2 VXLAN-3 VXLAN-4 VXLAN-5 VXLAN-6 VXLAN-7 VXLAN-8 VXLAN-9 VXLAN-10 VXLAN-11 VXLAN-12 XVX-1 "
    "XVX-2 XVX-3 XVX-4 ENC-3 ENC-5",
    "vni": "VXLAN-9 VXLAN-10 XVX-1 XVX-3 XVX-4",
    "dns": "CONN-6",
    "demo": "DEMO-1 DEMO-2 DEMO-3 DEMO-4 DEMO-5 DEMO-6 DEMO-7 DEMO-8 DEMO-9",
    "reset": "RST-1 RST-2 RST-3 RST-4 XPOL-16",
    "snat": "SVC-1 SVC-2 VXLAN-6 EKS-3 XSVC-5",
}  # fmt: skip
"""What these words select, by hand."""


def tagged(tag: str) -> set[str]:
    return {claim.id for claim in catalog().values() if tag in claim.tags}


def reported() -> dict[str, str]:
    """Claim to its kind."""
    return {
        claim["id"]: claim["kind"]
        for claim in json.loads(gzip.decompress(REPORTED.read_bytes()))["claims"]
    }


def test_no_claim_that_was_ever_reported_is_lost() -> None:
    assert reported().keys() - set(catalog()) == set()


def test_the_claims_of_a_family_are_numbered_from_1_without_gaps() -> None:
    families: dict[str, list[int]] = {}
    for claim in catalog():
        family, _, number = claim.partition("-")
        families.setdefault(family, []).append(int(number))
    assert {family: sorted(numbers) for family, numbers in families.items()} == {
        family: list(range(1, len(numbers) + 1)) for family, numbers in families.items()
    }


@pytest.mark.parametrize("tag", TAGS)
def test_a_tag_selects_its_claims(tag: str) -> None:
    assert tagged(tag) == set(TAGS[tag].split())


def test_windows_is_the_tag_of_what_needs_a_windows_node() -> None:
    assert tagged("windows") == {claim.id for claim in catalog().values() if claim.needs.windows}


def test_words_that_follow_from_a_claim_are_given_by_themselves() -> None:
    assert (
        tagged("isolation") == {claim.id for claim in catalog().values() if claim.denial} != set()
    )
    assert tagged("limitations") == {
        claim.id for claim in catalog().values() if claim.kind in ("limitation", "known issue")
    }


def test_every_tag_is_explained_and_used() -> None:
    assert all(tagged(tag) for tag in catalog().tags)


def test_a_claim_whose_documented_setting_was_replaced_names_the_versions_of_both() -> None:
    """Of tigera/docs, version-3.26 patches FelixConfiguration, version-3.27 the pool."""
    enc_2 = catalog()["ENC-2"]
    assert [source.where for source in enc_2.sources] == ["v3.18-v3.26", "v3.27-v3.32"]
    assert "up to v3.26 by ipipEnabled" in enc_2.statement


def test_every_claim_is_one_sentence_with_public_sources() -> None:
    for claim in catalog().values():
        assert re.fullmatch(r"[^\n]+\.", claim.statement), claim.id
        assert re.fullmatch(r"[^\n]+\.", claim.verify), claim.id
        assert re.fullmatch(r"[^\n]+\.", claim.holds), claim.id
        assert re.fullmatch(r"[^\n]+\.", claim.fails), claim.id
        assert claim.sources, claim.id
        assert all(source.url.startswith("https://") for source in claim.sources), claim.id


def test_a_claim_keeps_its_kind() -> None:
    kinds = {claim.id: str(claim.kind) for claim in catalog().values()}
    assert {claim: kinds[claim] for claim in reported()} == reported() | OTHER_KIND
    assert set(kinds.values()) == {str(kind) for kind in ClaimKind}


def test_what_can_happen_is_no_promise_that_it_does() -> None:
    assert {claim.id for claim in catalog().values() if claim.modality is Modality.CAN_HAPPEN} >= {
        "RST-1", "RST-2", "RST-3", "XPOL-16", "PERF-1",
    }  # fmt: skip


def test_what_changes_the_cluster_is_not_parallel() -> None:
    claims = catalog()
    for ident in ("VXLAN-10", "UNSUP-1", "XNAT-1"):
        assert claims[ident].isolation.kind is IsolationKind.DISRUPTIVE, ident
    for ident in ("VXLAN-9", "IPAM-1", "ENC-8"):
        assert claims[ident].isolation.kind is IsolationKind.PARALLEL, ident
        assert str(claims[ident].active) == "disruptive", ident
    assert str(claims["RST-3"].isolation) == "node-exclusive(windows)"


# --- versions ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "wanted", "inside"),
    [
        ("v3.31.2", ">=3.31", True),
        ("v3.31.0-0.dev-123-gabc", ">=3.31", True),
        ("v3.27.0-rc1", ">=3.16 <3.27", False),
        ("v3.26.9", ">=3.16 <3.27", True),
        ("3.9", ">=3.16", False),
        ("v3.31", "<3.31", False),
        ("v1.34.1+rke2r1", ">=1.20", True),
        ("v1.29.3-eks-abc", ">=1.30", False),
        ("17763.1431", ">=17763 <17763.1432", True),
        ("17763.1432", ">=17763 <17763.1432", False),
        ("20348", "=20348", True),
    ],
)
def test_versions_lie_where_documents_put_them(version: str, wanted: str, inside: bool) -> None:
    assert (Version.parse(version) in Range(wanted)) is inside


@pytest.mark.parametrize("text", ["", "master", "release-v3.33", "v", "three"])
def test_what_is_no_version_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a version"):
        Version.parse(text)


@pytest.mark.parametrize("text", ["", "3.16", ">=", ">=3.16,<3.27", "~3.16"])
def test_what_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"range|version"):
        Range(text)


def test_the_unknown_version_is_newer_than_all() -> None:
    assert Version.parse("v99.0.0") < NEWEST
    assert str(NEWEST) == "newest"


# --- loading ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    target = tmp_path / "data"
    target.mkdir()
    for name in ("documents.yaml", "tags.yaml"):
        shutil.copy(DATA / name, target)
    return target


GOOD = """area: An area
claims:
  - id: ONE-1
    statement: It works.
    kind: capability
    sources: [requirements v3.16, calico#1]
    needs: {windows: 1}
    tags: [vxlan]
    verify: Look.
"""


def test_a_small_catalog_is_read(folder: Path) -> None:
    (folder / "area.yaml").write_text(GOOD)
    claim = load(folder)["ONE-1"]
    assert claim.origin == "area.yaml:3"
    assert claim.tags == {"vxlan", "windows"}
    assert [str(source) for source in claim.sources] == [
        "Calico for Windows, Requirements (v3.16)",
        "projectcalico/calico#1",
    ]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("kind: capability", "kind: wish", "area.yaml:5: 'wish' is not a valid ClaimKind"),
        ("    verify: Look.\n", "", "area.yaml:3: missing: verify"),
        ("id: ONE-1", "id: one", "area.yaml:3: id 'one'"),
        ("tags: [vxlan]", "tags: [vxlam]", "area.yaml:8: ONE-1: unknown tag 'vxlam'"),
        ("calico#1]", "rumour]", "area.yaml:6: source 'rumour': neither a document"),
        ("calico#1]", "somewhere#1]", "area.yaml:6: source 'somewhere#1': unknown repository"),
        ("needs: {windows: 1}", "needs: {window: 1}", "area.yaml:7: unknown key 'window'"),
        ("needs: {windows: 1}", "needs: {windows: many}", "area.yaml:7: invalid literal"),
        ("needs: {windows: 1}", "needs: {v3_api: yes}", "area.yaml:7: expected true or false"),
        ("needs: {windows: 1}", "isolation: exclusive", "area.yaml:7: isolation 'exclusive'"),
        (
            "needs: {windows: 1}",
            "isolation: node-exclusive",
            "node-exclusive needs an OS in parentheses, and no other kind has one",
        ),
        ("needs: {windows: 1}", "applies: {modes: [overlay]}", "area.yaml:7: modes ['overlay']"),
        ("needs: {windows: 1}", "applies: {calico: '3.16'}", "area.yaml:7: '3.16' is not a range"),
        ("needs: {windows: 1}", "statement: Again.", "area.yaml:7: 'statement' is given twice"),
        ("claims:", "claims: {", "area.yaml:"),
    ],
)
def test_what_is_wrong_in_it_is_named_with_its_line(
    folder: Path, old: str, new: str, words: str
) -> None:
    assert old in GOOD
    (folder / "area.yaml").write_text(GOOD.replace(old, new))
    with pytest.raises(CatalogError) as caught:
        load(folder)
    assert words in str(caught.value)


def test_a_claim_stands_once(folder: Path) -> None:
    (folder / "a.yaml").write_text(GOOD)
    (folder / "b.yaml").write_text(GOOD)
    with pytest.raises(CatalogError, match=r"b.yaml:3: claim ONE-1 already exists in a.yaml:3"):
        load(folder)


def test_coverage_tells_untested_from_untestable() -> None:
    claims = [catalog()[ident] for ident in ("PLAT-1", "PLAT-9", "CONN-1")]
    covered = coverage(claims, [("CONN-1", "test_a"), ("CONN-1", "test_b")])
    assert covered.tests == {"CONN-1": ("test_a", "test_b")}
    assert (covered.without, covered.manual) == (("PLAT-1",), ("PLAT-9",))
    assert str(covered) == "1 of 2 testable claims have tests; 1 can only be checked by hand"
