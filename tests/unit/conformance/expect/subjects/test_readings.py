# SPDX-License-Identifier: Apache-2.0
"""Values that were read are compared with the claim; values that could not be read decide
nothing."""

from __future__ import annotations

import pytest

from conformance.errors import MissingCapability, Unmet
from conformance.expect.context import Context, Sink
from conformance.expect.subjects.readings import Readings
from conformance.model.claim import ClaimVerdict
from conformance.model.decision import Decision
from conformance.model.facts import Fact
from tests.unit.conformance.builders import a_windows_node

POOLS = {
    "IPPool a .spec.ipipMode": Fact("Never", "its .spec.ipipMode (projectcalico.org/v3)"),
    "IPPool b .spec.ipipMode": Fact("Always", "its .spec.ipipMode (projectcalico.org/v3)"),
}
ATTACHED: dict[str, str] = {}
REQUIRES = Readings(Context(claims=("ENC-1",), sink=Sink(attached=ATTACHED)))


def test_values_as_wanted_pass() -> None:
    REQUIRES.that({"IPPool a": POOLS["IPPool a .spec.ipipMode"]}, "Never", because="x", do="y")


def test_a_deviation_names_object_expected_observed_source_and_the_command_that_mends_it() -> None:
    with pytest.raises(Unmet) as unmet:
        REQUIRES.that(POOLS, "Never", because="Windows has no IPIP", do="kubectl patch ...")
    assert str(unmet.value).splitlines() == [
        "ENC-1  IPPool b .spec.ipipMode  expected Never, observed Always (read once)",
        "  because  Windows has no IPIP",
        "  read     its .spec.ipipMode (projectcalico.org/v3)",
        "  do       kubectl patch ...",
    ]
    assert "<---- WRONG" in ATTACHED["read"]


def test_values_are_shown_as_people_write_them() -> None:
    facts = {"a": Fact(False, "s")}
    with pytest.raises(Unmet, match="expected true, observed false"):
        REQUIRES.that(facts, True, because="x", do="y")
    builds = {"build of node w": Fact((17763, 1), "s")}
    with pytest.raises(Unmet, match=r"observed 17763\.1"):
        REQUIRES.that(builds, lambda build: build[1] > 1, "more", because="x", do="y")
    blocks: dict[str, Fact[list[str]]] = {"blocks of node w": Fact([], "s")}
    with pytest.raises(Unmet, match="expected exactly one, observed none"):
        REQUIRES.that(blocks, lambda cidrs: len(cidrs) == 1, "exactly one", because="x", do="y")


NODES = [a_windows_node("w1", 20348), a_windows_node("w2", 26100)]


def on_nodes(**found: dict[str, Fact[str]]) -> tuple[Exception | None, list[Decision]]:
    """What is raised and decided of what is read of w1 and w2."""
    kept: list[Decision] = []
    requires = Readings(Context(claims=("IPAM-6",), sink=Sink(kept)))
    try:
        requires.that(
            lambda name: found.get(name, {}),
            "one block",
            on=NODES,
            because="one network",
            do="release",
        )
    except (Unmet, MissingCapability) as error:
        return error, kept
    return None, kept


def test_each_node_that_is_read_about_is_a_decision_of_its_own() -> None:
    error, kept = on_nodes(
        w1={"blocks of node w1": Fact("one block", "s")},
        w2={"blocks of node w2": Fact("no block", "s")},
    )
    assert str(error).startswith(
        "IPAM-6  blocks of node w2  expected one block, observed no block (read once)\n  because  one network"
    )
    assert [(seen.target, seen.about, seen.verdict, seen.reason) for seen in kept] == [
        ("w1", ("20348",), ClaimVerdict.CONFIRMED, "one network"),
        ("w2", ("26100",), ClaimVerdict.UNMET, str(error).splitlines()[0]),
    ]


def test_a_node_of_which_nothing_can_be_read_is_not_run_and_takes_no_other_with_it() -> None:
    error, kept = on_nodes(w1={"a": Fact("one block", "s")}, w2={"b": Fact(None, "no right")})
    assert error is None
    assert [(seen.target, seen.verdict) for seen in kept] == [
        ("w1", ClaimVerdict.CONFIRMED), ("w2", ClaimVerdict.NOT_RUN)
    ]  # fmt: skip
    assert "b could not be read: no right" in kept[1].reason
    error, kept = on_nodes()
    assert isinstance(error, MissingCapability)
    assert {seen.verdict for seen in kept} == {ClaimVerdict.NOT_RUN}


def test_what_could_not_be_read_is_not_run() -> None:
    with pytest.raises(MissingCapability, match="BGP could not be read: no right to read it"):
        REQUIRES.that({"BGP": Fact(None, "no right to read it")}, "Disabled", because="x", do="y")


def test_nothing_read_is_never_a_confirmation() -> None:
    nothing: dict[str, Fact[str]] = {}
    with pytest.raises(MissingCapability, match="no value was found; expected: Never"):
        REQUIRES.that(nothing, "Never", because="x", do="y")


def of_the_cluster(value: str) -> list[Decision]:
    kept: list[Decision] = []
    Readings(Context(claims=("INST-2",), sink=Sink(kept))).that(
        {"a": Fact(value, "s"), "b": Fact("nothing", "s")},
        "nothing",
        lifted="laid".__eq__,
        because="x",
        do="y",
    )
    return kept


def test_what_calico_itself_made_is_lifted_and_anything_else_is_not() -> None:
    assert [one.verdict for one in of_the_cluster("nothing")] == [ClaimVerdict.CONFIRMED]
    (lifted,) = of_the_cluster("laid")
    assert (lifted.verdict, lifted.reason) == (ClaimVerdict.LIFTED, "a: laid (s)")
    with pytest.raises(Unmet, match="expected nothing, observed half"):
        of_the_cluster("half")
