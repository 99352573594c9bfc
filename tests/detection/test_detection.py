# SPDX-License-Identifier: Apache-2.0
"""Each claim has the verdicts that the table in rows/ expects: on a healthy lab, and on every lab
that is wrong on purpose.

The rows take minutes and run only with ``pytest tests/detection -m detection``. The checks of the
table itself are fast.
"""

from __future__ import annotations

import contextlib
import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.catalog import catalog
from conformance.model.claim import ClaimVerdict
from conformance.qualify.sets import sets
from conformance.schedule.order import order
from conformance.verdicts.acceptable import acceptable
from hybridlab.networks.registry import fault_types
from tests.detection import (
    bgp_edits,
    breaks,
    cluster_edits,
    compare,
    document,
    ipam_edits,
    lab_api,
    life_edits,
    network_edits,
    policies_of_others,
    reading_edits,
    runner,
)
from tests.detection.table import RED, Row, shipped
from tests.detection.taps.table import FAULTS as ROWS_OWN
from tests.detection.taps.table import PUTS
from tests.plugin import parts

ROOT = Path(__file__).parents[2]
TABLE = shipped()
FAULTS = fault_types() | ROWS_OWN
EDITS = (
    cluster_edits.EDITS
    | ipam_edits.EDITS
    | bgp_edits.EDITS
    | life_edits.EDITS
    | reading_edits.EDITS
    | network_edits.EDITS
    | policies_of_others.EDITS
)  # fmt: skip


class Labs:
    """The lab of the row that is running; started anew when a row needs another one."""

    def __init__(self, folder: Path, powershell: str) -> None:
        self._folder, self._stack = folder, contextlib.ExitStack()
        self.powershell = powershell
        self._key: object = None
        self._lab: runner.Lab | None = None
        self._count = 0

    def of(self, row: Row) -> runner.Lab:
        if self._lab is None or self._key != row.lab:
            self.end()
            self._count += 1
            folder = self._folder / f"lab-{self._count}"
            folder.mkdir()
            self._lab = self._stack.enter_context(
                runner.lab(
                    folder, row.set, row.tap, profile=row.profile, powershell=self.powershell
                )
            )
            self._key = row.lab
        return self._lab

    def end(self) -> None:
        self._lab = None
        self._stack.close()


@pytest.fixture(scope="module")
def labs(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Labs]:
    powershell = request.config.getoption("--detection-powershell")
    one = Labs(tmp_path_factory.mktemp("labs"), powershell)
    yield one
    one.end()


@pytest.mark.detection
@pytest.mark.detection_row
@pytest.mark.usefixtures("in_time")
def test_every_claim_says_what_its_row_expects(
    row: Row, labs: Labs, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    where = labs.of(row)
    api = lab_api.Api(where.kubeconfig)
    with contextlib.ExitStack() as wrong:
        wrong.enter_context(where.faults(row.faults))
        wrong.enter_context(runner.backends_missing(where, row.on_service, api))
        if row.edit:
            edit, *node = row.edit.split()
            wrong.enter_context(EDITS[edit](api, *node))
        timings = row.timings | (runner.REAL_STARTS if labs.powershell else {})
        healthy = not (row.faults or row.edit or row.tap or row.set or row.on_service)
        outcome = runner.run(
            where, tmp_path, row.claims, row.parallel, timings, row.external_target, row.only,
            watch=healthy or "standing_watch" in row.only, options=row.options,
        )  # fmt: skip
    print(f"{row.name}: {outcome.seconds:.1f} s")
    recorded = request.config.getoption("--detection-outcomes")
    if recorded:
        entry = compare.record(row.name, outcome.report, outcome.exit_code)
        with Path(recorded).open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(entry) + "\n")
    different = runner.differences(row, TABLE, outcome, as_written=row in TABLE.rows)
    assert not different, f"{row.name} ({row.what}) differs from the table:\n" + "\n".join(
        different
    )


def test_the_clean_row_names_every_claim_that_has_a_test() -> None:
    tested = set(parts.collected())
    assert tested - set(TABLE.clean) == set(), "claims that have a test and no clean verdict"
    assert set(TABLE.clean) - tested == set(), "claims with a clean verdict and without a test"
    assert set(TABLE.clean) <= set(catalog())


NEVER_RED = {"PLAT-11"}
"""It applies on the very platforms that its table lists: only a table that lacks one turns it red."""
CONFIRMED = [
    claim
    for claim in TABLE.clean
    if claim not in NEVER_RED
    and "CONFIRMED"
    in (TABLE.clean[claim], *(given.get(claim) for given in TABLE.profiles.values()))
]
"""Claims that a healthy lab of some profile confirms."""


@pytest.mark.parametrize("claim", CONFIRMED)
def test_every_confirmed_claim_is_turned_red_by_some_row(claim: str) -> None:
    assert TABLE.red(claim), (
        f"{claim} is CONFIRMED on a healthy lab, and no row expects it VIOLATED, UNMET or LIFTED"
    )


ONE_WAY = {
    "PLAT-11": "only a table that lacks the platform on which it applies turns it red",
}
"""Claims with a test that no row shows from both sides, and why."""


def _sides(claim: str) -> set[str]:
    """Return the sides from which healthy labs and rows show a claim: ``holds``, ``fails``."""
    healthy = [TABLE.clean[claim], *(given.get(claim, "") for given in TABLE.profiles.values())]
    shown = {
        *healthy,
        *(given.get(claim, "") for row in TABLE.rows for given in (row.expect, row.on_node)),
    }
    fails = {*RED, "NOT_OBSERVED"}  # what can happen, and did not
    return {"fails" if verdict in fails else "holds" for verdict in shown & {*fails, "CONFIRMED"}}


def test_claims_that_no_row_shows_from_both_sides_are_listed() -> None:
    assert {claim for claim in TABLE.clean if len(_sides(claim)) < 2} == set(ONE_WAY)


NARROW = {
    "aks-addon",
    "aks-no-dsr",
    "bgp-host-local-as-shipped",
    "bgp-v3.31.2-as-shipped",
    "bgp-v3.32-as-shipped",
    "canal-host-gw-aws",
    "cloud-win-bridge",
    "eks-vpc-no-dsr",
    "full-nodes",
    "two-versions",
    "v3.33-as-shipped",
}
"""Profiles that differ from others in what their rows ask of them alone; docs/modes-table.md
promises nothing of them.  On the first three nothing passes to or from Windows pods of other
nodes, so that a whole run waits for an hour."""


def test_every_profile_with_clean_verdicts_has_a_row_for_the_whole_run() -> None:
    whole = {
        row.profile
        for row in TABLE.rows
        if not (row.claims or row.faults or row.edit or row.set or row.tap)
    }
    assert set(TABLE.profiles) - whole == NARROW


def test_every_fault_of_the_lab_has_a_row() -> None:
    used = {fault.split()[0] for row in TABLE.rows for fault in row.faults}
    used |= {"service-backend-missing"} if any(row.on_service for row in TABLE.rows) else set()
    used |= {"api-unreachable"}  # tests/reliability/kills.py: while a run has the cluster changed
    used |= {"api-503"}  # life_edits.py: from the run's first policy on
    used |= {"exec-slow", "exec-other-words"}  # tests/lab/faults and rbac: what calibrate measures
    assert set(FAULTS) - used - breaks.FAULTS == set(), (
        "faults without a row here or in the wrong-verdict table"
    )


def test_rows_name_only_edits_and_taps_that_exist() -> None:
    assert {row.edit.split()[0] for row in TABLE.rows if row.edit} == set(EDITS)
    assert {row.tap for row in TABLE.rows if row.tap} == set(PUTS)


def test_a_row_with_a_fault_names_its_layer_and_every_layer_is_there() -> None:
    wrong = [
        (row.name, row.layer)
        for row in TABLE.rows
        if row.faults and row.layer not in {FAULTS[fault.split()[0]].layer for fault in row.faults}
    ]
    assert wrong == []
    assert {kind.layer for kind in FAULTS.values()} | {"cluster"} == set(TABLE.layers)


def test_every_area_is_a_folder_of_suites_whose_claims_depend_on_some_layer() -> None:
    folders = {path.name for path in (ROOT / "suites").iterdir() if any(path.glob("test_*.py"))}
    assert set(TABLE.areas.values()) == folders
    assert {area for layer in TABLE.layers.values() for area in layer.areas} == folders


@pytest.mark.parametrize(
    "begins", sorted({file for layer in TABLE.layers.values() for file in layer.files})
)
def test_the_files_of_a_layer_exist(begins: str) -> None:
    folder, _, name = begins.rpartition("/")
    assert any((ROOT / folder).glob(f"{name}*")), f"layers.yaml: no file begins with {begins}"


def test_a_late_policy_has_a_row_below_the_budget_and_one_above() -> None:
    late = [
        row for row in TABLE.rows if any(fault.startswith("policy-late") for fault in row.faults)
    ]
    assert any(row.records and "VIOLATED" not in row.expect.values() for row in late)
    assert any("VIOLATED" in row.expect.values() for row in late)


def test_the_paths_of_a_row_that_waver_were_open_in_an_earlier_test() -> None:
    # The order follows from packaged seconds, which a new measurement changes.
    before, tried, changes = (
        order().place(test)
        for test in (
            "suites/demo/test_before_the_policy.py::test_linux_client_reaches_windows_server",
            "suites/connectivity/test_pod_to_pod.py::"
            "test_pods_of_different_nodes_reach_each_other[linux-to-windows]",
            "suites/policy/test_default_deny_egress.py::"
            "test_the_selected_pod_reaches_nobody[kubernetes]",
        )
    )
    assert before < tried < changes, "the rows open-path-wavers-* need the tests in this order"


def test_a_broken_probe_or_api_is_nowhere_expected_to_be_red() -> None:
    broken = {"exec-empty-output", "exec-loses-status", "api-429", "hns-fails"}
    rows = [row for row in TABLE.rows if {fault.split()[0] for fault in row.faults} & broken]
    said = {
        verdict
        for row in rows
        for claim in TABLE.clean
        for verdict in row.allowed(claim, TABLE.healthy(claim))
    }
    assert not said & set(RED), (
        f"a broken probe or API is taken for a defect of the cluster: {sorted(said)}"
    )


def test_a_claim_is_run_alone_in_the_rows_that_run_it() -> None:
    rows = TABLE.concerning("XPOL-8")
    assert {row.claims for row in rows} == {("XPOL-8",)}
    assert {"policy-hits-node", "clean", "exec-empty-output"} <= {row.name for row in rows}
    assert "dns-stale" not in {row.name for row in rows}
    assert all(row.named <= {"XPOL-8"} for row in rows)


def test_the_documented_table_names_every_row_and_claim() -> None:
    page = document.page(TABLE)
    assert [row.name for row in TABLE.rows if f"| {row.name} | {row.layer} |" not in page] == []
    assert [claim for claim in TABLE.clean if f"| {claim} |" not in page] == []


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("route to block .*: no route", "route to block …: no route"),
        ("at 10[.]0.0.[0-9.]+ .coredns-[a-z0-9-]+. +expected", "at 10.0.0.… .coredns-…. expected"),
        ("observed (CONNECTED|REFUSED)", "observed (CONNECTED or REFUSED)"),
    ],
)
def test_words_that_a_row_asks_for_are_documented_without_the_signs_of_a_regular_expression(
    pattern: str, text: str
) -> None:
    assert document.readable(pattern) == text


def test_a_pattern_that_the_page_has_no_words_for_is_refused() -> None:
    with pytest.raises(ValueError, match="no words for this"):
        document.readable(r"answered after \d{3} ms")


DECIDED_AT_LEAST = 70
"""Of the claims of an earlier report, without those that joined since."""


def test_most_claims_are_decided_on_a_healthy_default_lab() -> None:
    reported = Path(__file__).parents[1] / "golden" / "reports" / "healthy.json.gz"
    known = {claim["id"] for claim in json.loads(gzip.decompress(reported.read_bytes()))["claims"]}
    decided = {
        claim
        for claim, verdict in TABLE.clean.items()
        if verdict not in ("NOT_RUN", "NOT_APPLICABLE")
    }
    assert len(decided & known) >= DECIDED_AT_LEAST, sorted(decided & known)


@pytest.mark.parametrize("name", sets())
def test_every_set_would_qualify_on_a_healthy_default_lab(name: str) -> None:
    claims = catalog()
    wrong = {
        demand.claim: TABLE.clean.get(demand.claim)
        for demand in sets()[name].demands
        if (verdict := ClaimVerdict(TABLE.clean[demand.claim])) is not ClaimVerdict.NOT_APPLICABLE
        or not demand.unless
        if not acceptable(claims[demand.claim].kind, verdict)
    }
    assert wrong == {}


def test_a_claim_of_the_provisional_set_is_in_no_other() -> None:
    asked = {name: {demand.claim for demand in one.demands} for name, one in sets().items()}
    provisional = asked.pop("provisional")
    assert {
        name: claims & provisional for name, claims in asked.items() if claims & provisional
    } == {}
