"""What was read is compared with what a claim says; what could not be read decides nothing."""

from __future__ import annotations

import pytest

from conformance.errors import MissingCapability, Unmet
from conformance.expect.readings import Readings
from conformance.expect.traffic import Context
from conformance.model.facts import Fact

POOLS = {
    "IPPool a": Fact("Never", "its .spec.ipipMode (projectcalico.org/v3)"),
    "IPPool b": Fact("Always", "its .spec.ipipMode (projectcalico.org/v3)"),
}
ATTACHED: dict[str, str] = {}
REQUIRES = Readings(Context(claims=("ENC-1",), attach=ATTACHED.__setitem__))


def test_values_as_wanted_pass() -> None:
    REQUIRES.equal({"IPPool a": POOLS["IPPool a"]}, "Never", because="x", do="y")


def test_a_deviation_names_object_expected_observed_source_and_the_command_that_mends_it() -> None:
    with pytest.raises(Unmet) as unmet:
        REQUIRES.equal(POOLS, "Never", because="Windows has no IPIP", do="kubectl patch ...")
    assert str(unmet.value).splitlines() == [
        "ENC-1  IPPool b  expected Never, observed Always",
        "  because  Windows has no IPIP",
        "  read     its .spec.ipipMode (projectcalico.org/v3)",
        "  do       kubectl patch ...",
    ]
    assert "<---- WRONG" in ATTACHED["read"]


def test_values_are_shown_as_people_write_them() -> None:
    facts = {"a": Fact(False, "s")}
    with pytest.raises(Unmet, match="expected true, observed false"):
        REQUIRES.equal(facts, True, because="x", do="y")
    builds = {"build of node w": Fact((17763, 1), "s")}
    with pytest.raises(Unmet, match=r"observed 17763\.1"):
        REQUIRES.each(builds, lambda build: build[1] > 1, "more", because="x", do="y")
    blocks: dict[str, Fact[list[str]]] = {"blocks of node w": Fact([], "s")}
    with pytest.raises(Unmet, match="expected exactly one, observed none"):
        REQUIRES.each(blocks, lambda cidrs: len(cidrs) == 1, "exactly one", because="x", do="y")


def test_what_could_not_be_read_is_not_run() -> None:
    with pytest.raises(MissingCapability, match="BGP could not be read: no right to read it"):
        REQUIRES.equal({"BGP": Fact(None, "no right to read it")}, "Disabled", because="x", do="y")


def test_nothing_read_is_never_a_confirmation() -> None:
    nothing: dict[str, Fact[str]] = {}
    with pytest.raises(MissingCapability, match="nothing could be read that is to be Never"):
        REQUIRES.equal(nothing, "Never", because="x", do="y")
