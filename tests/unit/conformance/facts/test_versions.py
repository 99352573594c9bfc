# SPDX-License-Identifier: Apache-2.0
"""The Calico version that runs, by edition, operator and image; and the last version that the
suite knows."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conformance.catalog import KNOWN, NEXT, Range, Version, row, tables
from conformance.catalog.known_issues import known_issues
from conformance.errors import MissingCapability
from conformance.expect.subjects.builds import Builds
from conformance.facts.calico_nodes import image_version
from conformance.facts.supported import Supported
from conformance.model.builds import BuildUnderCalico
from conformance.model.facts import Fact, Facts
from conformance.plugin import header
from tests.unit.conformance.facts.platforms.test_unplanned import seen

Obj = dict[str, Any]
DIGEST = "quay.io/calico/node-windows@sha256:" + "0" * 64


def with_images(*changes: tuple[str, str]) -> Any:
    """Return a change of recorded objects that replaces texts of their images."""

    def change(objects: dict[str, Obj]) -> None:
        for path, obj in list(objects.items()):
            text = json.dumps(obj)
            for old, new in changes:
                text = text.replace(old, new)
            objects[path] = json.loads(text)

    return change


def notes(facts: Facts) -> str:
    return "\n".join(header.assumptions(facts))


@pytest.mark.parametrize("image", ["tigera/node", "mirror.example/acme/node", "tigera/cnx-node"])
def test_enterprise_s_images_say_enterprise_s_version_and_the_cluster_says_calico_s(
    tmp_path: Path, image: str
) -> None:
    """Enterprise 3.22 and 3.23 name their images as Calico does."""
    facts = seen("calico-enterprise", tmp_path, with_images(("tigera/cnx-node", image)))
    assert {fact.value for fact in facts.calico_on_nodes.values()} == {"v3.29.1"}
    assert "belongs to Calico Enterprise" in facts.calico_on_nodes["win"].source
    assert "nodes run different versions" not in notes(facts)


def test_enterprise_is_known_by_its_images_where_nothing_else_says_it(tmp_path: Path) -> None:
    changes = [
        ("tigera/cnx-node", "tigera/node"),
        ('"variant": "TigeraSecureEnterprise"', '"x": ""'),
        ('"cnxVersion"', '"xVersion"'),
    ]
    facts = seen("calico-enterprise", tmp_path, with_images(*changes))
    assert facts.calico_edition.value == "Calico Enterprise"
    assert facts.calico_on_nodes["win"].value == "v3.29.1"


def pinned(objects: dict[str, Obj]) -> None:
    """An ImageSet: the operator names images by digest."""
    with_images(
        *((f"node-windows:v3.31.{patch}", DIGEST.partition("/calico/")[2]) for patch in range(9))
    )(objects)
    installation = objects["/apis/operator.tigera.io/v1/installations/default"]
    installation.setdefault("status", {})["calicoVersion"] = "v3.31.2"


def test_an_operator_that_pins_images_by_digest_says_the_version_of_windows_nodes(
    tmp_path: Path,
) -> None:
    facts = seen("kubeadm-operator", tmp_path, pinned)
    fact = facts.calico_on_nodes["win"]
    assert fact.value == "v3.31.2"
    assert fact.source.startswith(
        "Installation default .status.calicoVersion; no image tag names a version: "
        "quay.io/calico/node-windows@"
    )
    assert "Calico's version on Windows nodes is not known" not in notes(facts)


def test_an_operator_says_nothing_of_a_daemonset_that_is_not_its_own(tmp_path: Path) -> None:
    def change(objects: dict[str, Obj]) -> None:
        pinned(objects)
        with_images(('"ownerReferences"', '"owners"'))(objects)

    facts = seen("kubeadm-operator", tmp_path, change)
    assert facts.calico_on_nodes["win"].value is None
    assert "no image tag of" in facts.calico_on_nodes["win"].source


def test_nodes_that_differ_from_the_cluster_are_named_in_the_header(tmp_path: Path) -> None:
    facts = seen(
        "kubeadm-operator", tmp_path, with_images(("node-windows:v3.31", "node-windows:v3.30"))
    )
    assert "nodes run different versions of Calico (" in notes(facts)
    alone = replace(
        facts, calico_on_nodes={"win": Fact("v3.29.1", "")}, calico_version=Fact("v3.31.2", "")
    )
    assert "(v3.29.1 on win; the cluster reports v3.31.2)" in notes(alone)
    same = replace(
        facts, calico_on_nodes={"win": Fact("v3.31.2-2", "")}, calico_version=Fact("v3.31.2", "")
    )
    assert "nodes run different versions" not in notes(same)


@pytest.mark.parametrize(
    "text",
    [
        "v3.30.2-eks1",
        "v3.30.2-rke2r1",
        "v3.30.2-gke.1100",
        "v3.30.2_vmware.1",
        "v3.30.2+k0s.0",
        "3.30.2",
        "v3.30.2.el9",
        "v3.30.2-build20250711",
        "v3.30.2@sha256:abc",
        "v3.30.2~ds1",
        "v3.30.2-fips-2",
    ],
)
def test_a_vendor_s_suffix_is_no_part_of_the_release(text: str) -> None:
    assert Version.parse(text) == Version.of(3, 30, 2)
    assert (
        image_version(f"mirror.example:5000/calico/node-windows:{text}") == text.partition("@")[0]
    )


@pytest.mark.parametrize("text", ["", "latest", "master", "v3.x", "3.30.2.", "v3..2"])
def test_what_names_no_release_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="is not a version"):
        Version.parse(text)


NEWER = "v3.34.0"


def at(tmp_path: Path, version: str) -> Facts:
    """Return the facts of a recorded cluster, whose nodes all run this release."""
    facts = seen("kubeadm-operator", tmp_path, lambda objects: None)
    told = Fact(version, "somebody")
    return replace(
        facts,
        calico_version=told,
        calico_on_nodes=dict.fromkeys(facts.calico_on_nodes, told),
        kubernetes_version=Fact("v1.37.0", "somebody"),
    )


def test_the_header_says_where_the_suite_s_knowledge_ends(tmp_path: Path) -> None:
    facts = at(tmp_path, "v3.33.1")
    assert f"this suite knows Calico up to {KNOWN}" in "\n".join(header.facts_lines(facts))
    assert "newer than this suite knows" not in notes(facts)
    assert "Calico v3.34.0 is newer than this suite knows (v3.33)" in notes(at(tmp_path, NEWER))


def test_v3_33_is_in_every_table(tmp_path: Path) -> None:
    supported = Supported(at(tmp_path, "v3.33.1"))
    assert [fact.value for fact in supported.kubernetes().values()] == ["listed"]
    assert [fact.value for fact in supported.platform().values()] == ["listed"]
    assert Builds(supported.facts).listed(BuildUnderCalico((20348, 2762), "v3.33.1"))
    for name in tables().keys() - {"windows"}:  # by release of Kubernetes
        found = row(name, "v3.33.1")
        assert found is not None, name
        assert "v3.3" not in found.source


def test_no_table_answers_for_a_release_that_was_not_read(tmp_path: Path) -> None:
    facts = at(tmp_path, NEWER)
    for ask in (
        Supported(facts).platform,
        Supported(facts).network,
        Supported(facts).kubernetes,
        Supported(facts).unsupported,
        lambda: Builds(facts).listed(BuildUnderCalico((20348, 2762), NEWER)),
    ):
        with pytest.raises(
            MissingCapability,
            match=rf"Calico v3\.34\.0 is not in the suite's table.* up to {KNOWN}",
        ):
            ask()


def test_no_table_and_no_known_issue_goes_on_for_ever() -> None:
    for name, rows in tables().items():
        assert not [one.versions.text for one in rows if NEXT in one.versions], name
    for issue in known_issues():
        versions = issue.applies.calico
        assert versions is None or NEXT not in Range(str(versions)), issue.name
