# SPDX-License-Identifier: Apache-2.0
"""Options that contradict each other, or have no meaning, end the run with one line."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from _pytest.config.argparsing import Parser

from conformance.errors import UsageProblem
from conformance.plugin import options
from conformance.plugin.options import refusals, repeat
from conformance.settings import Cover, Mirror, Settings, Workers

SUITE = Path(__file__)
"""A file that exists and cannot be run."""
CLUSTER = "--kubeconfig=here"
ALONE = "a run in prepared namespaces changes nothing else and leaves them empty; leave one out"


def config(*arguments: str) -> Any:
    """Return what the plugin reads of pytest's configuration after this command line."""
    parser = Parser(_ispytest=True)
    options.add_options(parser)
    parsed: argparse.Namespace = parser.parse(list(arguments))
    return SimpleNamespace(option=parsed, invocation_params=SimpleNamespace(args=arguments))


def settings(*arguments: str, **more: Any) -> Settings:
    """Return the settings of this command line; ``more``: options of other plugins."""
    read = config(*arguments)
    vars(read.option).update(more)
    return options.read_settings(read, options.read_choice(read), "r123", "gw0")


def refusal(*arguments: str, **more: Any) -> str:
    with pytest.raises(UsageProblem) as caught:
        settings(*arguments, **more)
    return str(caught.value)


REFUSED: list[tuple[list[str], str]] = [
    (
        ["--allow-disruptive", "--no-disruptive"],
        "--allow-disruptive and --no-disruptive contradict each other: leave one out",
    ),
    (
        ["--allow-cluster-disruptive", "--no-disruptive"],
        "--allow-cluster-disruptive and --no-disruptive contradict each other: leave one out",
    ),
    (
        ["--allow-disruptive", "--allow-cluster-disruptive", "--no-disruptive"],
        "--allow-disruptive and --no-disruptive contradict each other: leave one out",
    ),
    (["--max-disrupted-nodes=0"], "--max-disrupted-nodes 0: expected at least 1"),
    (
        [CLUSTER, "--disruptive-node=w1"],
        "--disruptive-node w1 only chooses the node; add --allow-disruptive to permit the test",
    ),
    (
        ["--disruptive-node=w1", "--no-disruptive"],
        "--disruptive-node and --no-disruptive contradict each other: leave one out",
    ),
    (
        ["--every-node", "--nodes=a"],
        "--every-node covers all nodes: leave out --nodes, --node-selector and --max-nodes-per-os",
    ),
    (
        ["--every-node", "--node-selector=a"],
        "--every-node covers all nodes: leave out --nodes, --node-selector and --max-nodes-per-os",
    ),
    (
        ["--every-node", "--max-nodes-per-os=2"],
        "--every-node covers all nodes: leave out --nodes, --node-selector and --max-nodes-per-os",
    ),
    (["--max-nodes-per-os=0"], "--max-nodes-per-os 0: expected at least 1"),
    (["--quick", "--smoke"], "--quick and --smoke choose different tests: leave one out"),
    (
        ["--quick", "--baseline=last.json"],
        "--quick runs a part of the tests, and --baseline needs all: leave one of them out",
    ),
    (["--workers-per-windows-node=0"], "--workers-per-windows-node 0: expected at least 1"),
    (["--calicoctl=/no/such"], "--calicoctl /no/such: no such file"),
    (
        [f"--calicoctl={SUITE}"],
        f"--calicoctl {SUITE}: this file is not executable; chmod +x makes it executable",
    ),
    (["--max-minutes=0"], "--max-minutes 0: expected more than 0"),
    (["--max-minutes=nan"], "--max-minutes nan: expected more than 0"),
    (["--shard=4/3"], "--shard 4/3: expected the part and the number of parts, such as 1/3"),
    (
        ["--shard=1/3", "--allow-disruptive"],
        "--shard 1/3 runs no disruptive test: leave out --allow-disruptive, and run "
        "disruptive tests in a run of their own",
    ),
    (
        ["--shard=1/3", "--require=core"],
        "--shard 1/3 runs a part of the tests, and --require needs all: leave it out, and "
        "judge the merged report (calico-conformance gate)",
    ),
    (
        [CLUSTER, "--allow-node-fill"],
        "--allow-node-fill changes a whole node: add --allow-disruptive to permit that",
    ),
    (
        ["--allow-node-fill", "--no-disruptive"],
        "--allow-node-fill and --no-disruptive contradict each other: leave one out",
    ),
    (["--run=r1"], "--run r1 names the run whose changes to restore: add --restore"),
    (
        ["--namespaces-prefix=demo"],
        "--namespaces-prefix is not for the run's own lab: name a cluster by --kubeconfig=PATH",
    ),
    *(
        (
            [CLUSTER, "--namespaces-prefix=demo", option],
            f"{option} and --namespaces-prefix contradict each other: {ALONE}",
        )
        for option in (
            "--allow-disruptive",
            "--allow-cluster-disruptive",
            "--keep",
        )
    ),
    (
        ["--calico-version=new"],
        "--calico-version new: 'new' is not a version such as v3.31.2",
    ),
    (
        ["--windows-calico-version=new"],
        "--windows-calico-version new: 'new' is not a version such as v3.31.2",
    ),
    (
        [CLUSTER, "--namespaces-prefix=No_Name"],
        "--namespaces-prefix No_Name: expected at most 40 lower-case letters, digits and hyphens, "
        "with no hyphen at the beginning or end",
    ),
    (["--waivers="], "--waivers= has no value: leave the option out, or give it a value"),
    (["--nodes="], "--nodes= has no value: leave the option out, or give it a value"),
    (
        ["--max-minutes=1", "--max-minutes=2"],
        "--max-minutes is given 2 times, but only one value can count: write it once, as "
        "--max-minutes=N",
    ),
    (["--label=by"], "--label by: expected KEY=VALUE, for example release=v3.32.0-rc1"),
    (["--label=by=jane", "--label=by=joe"], "--label by=joe: by is jane already"),
    (
        ["--claim=CONN-333"],
        "--claim CONN-333: no such claim; did you mean CONN-3 or CONN-7 or CONN-6? "
        "(calico-conformance claims lists all)",
    ),
    # Of several problems the line is always about the same one.
    (
        [CLUSTER, "--namespaces-prefix=demo", "--keep", "--max-minutes=0", "--label=by"],
        "--max-minutes 0: expected more than 0",
    ),
]
NO_WORKERS = "-n -1: expected 0 or more workers"


@pytest.mark.parametrize(("arguments", "expected"), REFUSED)
def test_what_cannot_be_meant_is_refused(arguments: list[str], expected: str) -> None:
    assert refusal(*arguments) == expected


def test_fewer_than_no_workers_are_refused() -> None:
    assert refusal(numprocesses=-1) == NO_WORKERS
    assert settings(numprocesses="auto").run_id == "r123"


def test_every_refusal_of_the_table_has_a_row_here() -> None:
    lines = [NO_WORKERS, *(expected for _, expected in REFUSED)]
    for _, message in refusals.REFUSALS:
        pattern = ".+".join(map(re.escape, re.split(r"\{.*?\}", message)))
        assert any(re.fullmatch(pattern, line) for line in lines), message


def test_text_in_braces_is_printed_as_it_is() -> None:
    assert refusal("--run={keep}").startswith("--run {keep} names")


def test_what_no_option_names_has_its_default() -> None:
    found = settings()
    assert found.cover == Cover(at_most=Cover.at_most)
    assert found.max_disrupted_nodes == Settings.max_disrupted_nodes
    assert found.workers.watch == Workers.watch
    assert found.workers.at_most == options.LAB_WORKERS.at_most
    assert (found.calicoctl, found.pod_limits, found.external_target) == (None, None, None)
    assert (found.namespaces_prefix, found.disruptive_node) == ("", "")
    assert (found.images.mirrors, found.images.choices, found.tolerations) == ((), {}, ())
    assert (found.run_id, found.worker) == ("r123", "gw0")


def test_real_windows_agents_are_given_the_times_and_the_number_of_workers_of_a_cluster() -> None:
    real, cluster, lab = settings("--lab-powershell=pwsh"), settings(CLUSTER), settings()
    assert (real.timings, real.workers) == (cluster.timings, cluster.workers)
    assert (real.timings, real.workers) != (lab.timings, lab.workers)
    assert real.disruptive, "it is the run's own lab all the same"
    read = config("--lab-powershell=pwsh", "--lab-profile=bgp")
    choice = options.read_choice(read)
    assert (choice.powershell, choice.profile, choice.own_lab) == ("pwsh", "bgp", True)
    assert options.joined(["--lab-powershell", "pwsh"]) == ["--lab-powershell=pwsh"]


def test_a_powershell_is_for_a_lab_of_the_runs_own() -> None:
    assert refusal(CLUSTER, "--lab-powershell=pwsh") == (
        "--lab-powershell pwsh is for a lab that the run starts itself, not for "
        "--cluster kubeconfig"
    )


@pytest.mark.parametrize(
    ("arguments", "calibrated", "number"),
    [
        ([CLUSTER], "", 2),
        ([CLUSTER], "3 workers", 3),
        ([CLUSTER, "--workers-per-windows-node=4"], "3 workers", 4),
        ([], "3 workers", options.LAB_WORKERS.per_windows_node),
        (["--workers-per-windows-node=1"], "", 1),
    ],
)
def test_an_option_counts_before_a_calibration_and_that_before_two_workers(
    tmp_path: Path, arguments: list[str], calibrated: str, number: int
) -> None:
    file = tmp_path / "calibrated.yaml"
    file.write_text(f"run:\n  workers_per_windows_node: {calibrated}\n" if calibrated else "")
    assert settings(*arguments, f"--timings={file}").workers.per_windows_node == number


@pytest.mark.parametrize(
    ("arguments", "node", "cluster"),
    [
        ([], True, True),
        (["--no-disruptive"], False, False),
        ([CLUSTER], False, False),
        ([CLUSTER, "--allow-disruptive"], True, False),
        ([CLUSTER, "--allow-cluster-disruptive"], True, True),
    ],
)
def test_disruptive_tests_run_on_an_own_lab_or_where_they_are_allowed(
    arguments: list[str], node: bool, cluster: bool
) -> None:
    found = settings(*arguments)
    assert (found.disruptive, found.cluster_disruptive) == (node, cluster)


def test_options_with_a_value_reach_the_settings() -> None:
    found = settings(
        CLUSTER,
        "--nodes=a, b",
        "--nodes=c,",
        "--node-selector=pool=w",
        "--max-nodes-per-os=7",
        "--image-registry=registry.example/all",
        "--image-pull-secret=s",
        "--pod-limits=cpu=1,memory=1Gi",
        "--tolerate=gpu",
        "--external-target=192.0.2.7",
        "--calico-version=v3.30.0",
        "--max-minutes=1.5",
        "--max-disrupted-nodes=2",
        "--no-watch",
        "--workers-per-windows-node=3",
        "--allow-disruptive",
        "--disruptive-node=w1",
    )
    assert found.cover == Cover(at_most=7, nodes=("a", "b", "c"), selector="pool=w")
    assert found.images.mirrors == (Mirror.parse("registry.example/all"),)
    assert found.images.pull_secrets == ("s",)
    assert found.pod_limits is not None
    assert found.external_target is not None
    assert len(found.tolerations) == 1
    assert found.workers == Workers(watch=0).on_windows_nodes(3)
    assert (found.calico_version, found.max_minutes, found.max_disrupted_nodes) == (
        "v3.30.0",
        1.5,
        2,
    )
    assert found.disruptive_node == "w1"


def test_claims_are_run_again_by_the_options_that_matter_to_them() -> None:
    given = config(
        CLUSTER,
        "--image-registry=docker.io=registry.example/a b",
        "--tolerate=gpu",
        "--image-pull-secret=s",
        "--node-selector=pool=w",
        "--every-node",
        "--allow-disruptive",
        "--max-minutes=3",
    )
    command = repeat.repeat_command(given, ["CONN-3", "CONN-6"])
    beginning, _, end = command.partition(" --image-registry=")
    assert beginning.endswith(
        "--claim CONN-3 --claim CONN-6 --kubeconfig=here --node-selector=pool=w"
    )
    assert end == (
        "'docker.io=registry.example/a b' --image-pull-secret=s --tolerate=gpu "
        "--every-node --allow-disruptive"
    )


def test_named_nodes_take_the_place_of_chosen_ones() -> None:
    given = config("--node-selector=pool=w", "--nodes=a", "--nodes=b")
    assert repeat.repeat_command(given, []).endswith(" --node-selector=pool=w --nodes=a,b")
    every = config("--max-nodes-per-os=3", "--every-node", "--disruptive-node=x y")
    command = repeat.repeat_command(every, [], ["w1"])
    assert command.endswith(" --disruptive-node='x y' --nodes=w1")


def test_nodes_are_filled_where_that_is_allowed() -> None:
    assert settings(CLUSTER, "--allow-disruptive", "--allow-node-fill").node_fill
    assert not settings(CLUSTER, "--allow-disruptive").node_fill
