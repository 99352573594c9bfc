"""The command line: options, and what they mean as settings.  Contradictions and unknown values are one clear line.

Messages write ``--kubeconfig=PATH`` with the equals sign: before pytest knows these options it takes a separate word
that is an existing path for a test path, and looks for its configuration there instead of in the checkout.
"""

import os
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from conformance import product
from conformance.catalog import Version, catalog
from conformance.errors import UsageProblem
from conformance.run.choice import Choice, choose
from conformance.run.image_choices import image_choices
from conformance.settings import (
    Cover,
    Images,
    Mirror,
    PodLimits,
    Settings,
    Toleration,
    Workers,
    external_target,
    load_timings,
)


def add_options(parser: pytest.Parser) -> None:
    """Register them with pytest."""
    cluster = parser.getgroup("cluster", "cluster that the conformance suites run on")
    cluster.addoption(
        "--cluster", choices=("lab", "kubeconfig", "in-cluster"), default=None,
        help="lab: start an embedded one for this run (default); kubeconfig: what KUBECONFIG names; in-cluster: the "
        "pod's service account",
    )  # fmt: skip
    cluster.addoption(
        "--kubeconfig", metavar="PATH", help="run on the cluster that this file names (write --kubeconfig=PATH)"
    )
    cluster.addoption("--context", metavar="NAME", help="context in the kubeconfig, or in KUBECONFIG's files")
    cluster.addoption("--lab-profile", metavar="NAME", help="kind of lab (see `hybridlab profiles`)")
    cluster.addoption(
        "--keep", action="store_true", help="leave the run's objects on the cluster, and say how to remove them"
    )
    cluster.addoption(
        "--image-registry", metavar="[UPSTREAM=]PREFIX", action="append", default=[],
        help="take images from this registry, or only those of one upstream: mcr.microsoft.com=registry.example/mcr "
        "(repeatable)",
    )  # fmt: skip
    cluster.addoption(
        "--images", metavar="FILE", help="YAML with name, tag, digest or pull secret of single images (docs/images.md)"
    )
    cluster.addoption(
        "--list-images", action="store_true",
        help="list the images that the named cluster needs, or without one those for all Windows builds, and end",
    )  # fmt: skip
    cluster.addoption(
        "--pod-limits", metavar="cpu=N,memory=N", help="give every container of the suite's pods these limits"
    )
    cluster.addoption(
        "--image-pull-secret", metavar="NAME", action="append", default=[], help="pull with this secret (repeatable)"
    )
    cluster.addoption(
        "--tolerate", metavar="KEY[=VALUE][:EFFECT]", action="append", default=[],
        help="taint that the suite's pods tolerate, besides the usual Windows and control-plane ones (repeatable)",
    )  # fmt: skip
    cluster.addoption(
        "--calicoctl", metavar="PATH", help="program that writes Calico objects where their v3 API is not served"
    )
    cluster.addoption(
        "--external-target", metavar="ADDRESS[:PORT]",
        help="a host beyond the cluster that answers ping, and TCP on this port (default 80); a lab has one of its own",
    )  # fmt: skip
    cluster.addoption("--calico-version", metavar="VERSION", help="judge by this version instead of the detected one")
    cluster.addoption(
        "--windows-calico-version", metavar="VERSION",
        help="version of Calico on the Windows nodes, where it is another and cannot be read (AKS, services by hand)",
    )  # fmt: skip
    cluster.addoption("--timings", metavar="FILE", help="YAML with timings to use in place of the packaged ones")

    cluster.addoption(
        "--restore", action="store_true",
        help="put the cluster back as it was before runs that died, remove what they left, and end",
    )  # fmt: skip
    cluster.addoption(
        "--janitor", action="store_true", help="the same as --restore; with --dry-run only say what there is"
    )
    cluster.addoption(
        "--run", metavar="ID", help="with --restore or --janitor: only of this run, whose machine is known to be gone"
    )
    cluster.addoption("--dry-run", action="store_true",
        help="print every change that the selected tests (or --janitor) would make, and make none",
    )  # fmt: skip

    _add_cover(parser)
    claims = parser.getgroup("claims", "claims that the conformance suites decide")
    claims.addoption(
        "--claim", metavar="ID", action="append", default=[], help="run only tests of this claim (repeatable)"
    )
    claims.addoption(
        "--world", metavar="FILE", help="run only this world of policies, or those of a folder (docs/policy.md)"
    )
    claims.addoption(
        "--smoke", action="store_true", help="run only a quick check of every node: agent, exec, image pull, one path"
    )
    claims.addoption(
        "--max-minutes", metavar="N", type=float, default=None,
        help="begin no test after N minutes: what runs is finished, everything is removed, the rest is NOT_RUN",
    )  # fmt: skip
    claims.addoption(
        "--plan", action="store_true", help="say for each claim what would run on this cluster and why, and end"
    )
    claims.addoption("--list-claims", action="store_true", help="list the catalog and which claims have tests, and end")
    claims.addoption(
        "--long", action="store_true", help="with --list-claims: each claim's sources, how it is checked, what is seen"
    )
    claims.addoption(
        "--allow-disruptive", action="store_true", help="also run tests that change a whole node (restart Felix, say)"
    )
    claims.addoption(
        "--allow-cluster-disruptive", action="store_true",
        help="also those that change what the whole cluster shares (VXLAN-9, VXLAN-10), where its owner has opted in",
    )  # fmt: skip
    claims.addoption(
        "--max-disrupted-nodes", metavar="N", type=int, help="of so many Windows nodes at most (default: 4)"
    )
    claims.addoption(
        "--delete-emptydir-data", action="store_true", help="evict pods with emptyDir too when nodes are drained"
    )
    claims.addoption(
        "--disruptive-node", metavar="NAME", help="make changes of a whole node, such as a drain, on this node only"
    )
    claims.addoption(
        "--no-disruptive", action="store_true", help="run no disruptive tests, not even on the run's own lab"
    )
    claims.addoption(
        "--capture-packets", action="store_true",
        help="after a failure capture packets of one failing pair on the nodes of both ends, while it is tried again",
    )  # fmt: skip
    claims.addoption(
        "--no-watch", action="store_true", help="ask no paths that no test touches all through the run (POL-1)"
    )
    claims.addoption("--report-dir", metavar="DIR", help="where reports go, one folder per run (default: reports)")
    _add_qualification(parser)


def _add_cover(parser: pytest.Parser) -> None:
    cover = parser.getgroup("covered nodes", "nodes that the conformance suites decide on")
    cover.addoption(
        "--max-nodes-per-os", metavar="N", type=int, default=None,
        help=f"cover up to N nodes of each operating system (default {Cover.at_most}); one of each Windows build is "
        "covered always",
    )  # fmt: skip
    cover.addoption(
        "--nodes", metavar="NAME,...", action="append", default=[],
        help="cover exactly these, of each operating system of which one is named (repeatable)",
    )  # fmt: skip
    cover.addoption("--node-selector", metavar="KEY[=VALUE],...", help="cover exactly the nodes with these labels")
    cover.addoption("--every-node", action="store_true", help="cover all nodes that take pods")


def _add_qualification(parser: pytest.Parser) -> None:
    gate = parser.getgroup("qualification", "qualification by the run's report")
    gate.addoption("--require", metavar="SET[,SET]", help="say whether the run qualifies for these sets (core, ...)")
    gate.addoption("--waivers", metavar="FILE", help="YAML with verdicts that are accepted, by whom and until when")
    gate.addoption("--attest", metavar="FILE", help="YAML with a person's answers to claims that no program can decide")
    gate.addoption("--fail-on", metavar="VERDICT[,VERDICT]", help="exit code 1 also when a claim has one of these")
    gate.addoption("--baseline", metavar="REPORT", help="compare with this report; exit code 1 when it became worse")
    gate.addoption(
        "--rerun-of", metavar="REPORT",
        help="run again what is VIOLATED, INCONCLUSIVE or NOT_RUN in this report, and report on both",
    )  # fmt: skip
    gate.addoption(
        "--label", metavar="KEY=VALUE", action="append", default=[],
        help="say this of the run in all its reports: release=v3.32.0-rc1, by=jane (repeatable)",
    )  # fmt: skip


WITH_PATHS = (
    "--kubeconfig", "--timings", "--calicoctl", "--report-dir", "--images", "--waivers", "--attest", "--baseline",
    "--rerun-of", "--world",
)  # fmt: skip


def joined(arguments: Sequence[str]) -> list[str]:
    """The command line with ``--option PATH`` written as ``--option=PATH``, for options whose value is a path."""
    found: list[str] = []
    for argument in arguments:
        if found and found[-1] in WITH_PATHS:
            found[-1] = f"{found[-1]}={argument}"
        else:
            found.append(argument)
    return found


WORKERS_PER_CPU = 3
"""On a lab, whose nodes share this machine with the workers.  A whole run uses 90 to 130 s of CPU.  With six workers on
two cores, at load 10, a change of policy took at most 5.6 s of its 10 s, and all verdicts were those of four workers;
with eight that asked every 100 ms Felix was late by more than its budget, and healthy policies were VIOLATED."""
_LAB_MOST = max(1, min(Workers.at_most, WORKERS_PER_CPU * (os.cpu_count() or 1)))
LAB_WORKERS = Workers(at_most=_LAB_MOST, per_windows_node=_LAB_MOST, agents=200, agents_per_windows_node=200)
"""On an embedded lab PowerShell starts and agents cost next to nothing."""


def read_choice(config: pytest.Config) -> Choice:
    """The cluster that the options choose.  Raises UsageProblem."""
    option = config.option
    return choose(
        cluster=option.cluster,
        kubeconfig=option.kubeconfig,
        context=option.context,
        profile=option.lab_profile,
        keep=option.keep,
    )


def read_settings(config: pytest.Config, choice: Choice, run_id: str, worker: str) -> Settings:
    """Everything else that the options say.  Raises UsageProblem."""
    option = config.option
    allowed = option.allow_disruptive or option.allow_cluster_disruptive
    if allowed and option.no_disruptive:
        one = "--allow-disruptive" if option.allow_disruptive else "--allow-cluster-disruptive"
        raise UsageProblem(f"{one} and --no-disruptive contradict each other: leave one out")
    if option.max_disrupted_nodes is not None and option.max_disrupted_nodes < 1:
        raise UsageProblem(f"--max-disrupted-nodes {option.max_disrupted_nodes}: expected at least 1")
    if option.disruptive_node and not (allowed or choice.own_lab):
        raise UsageProblem(
            f"--disruptive-node {option.disruptive_node} only chooses the node; "
            "add --allow-disruptive to permit the test"
        )
    if option.disruptive_node and option.no_disruptive:
        raise UsageProblem("--disruptive-node and --no-disruptive contradict each other: leave one out")
    for name in ("calico_version", "windows_calico_version"):
        if text := getattr(option, name):
            try:
                Version.parse(text)
            except ValueError as error:
                raise UsageProblem(f"--{name.replace('_', '-')} {text}: {error}") from None
    if option.every_node and (option.nodes or option.node_selector or option.max_nodes_per_os):
        raise UsageProblem("--every-node covers all nodes: leave out --nodes, --node-selector and --max-nodes-per-os")
    if option.max_nodes_per_os is not None and option.max_nodes_per_os < 1:
        raise UsageProblem(f"--max-nodes-per-os {option.max_nodes_per_os}: expected at least 1")
    if option.calicoctl and not Path(option.calicoctl).is_file():
        raise UsageProblem(f"--calicoctl {option.calicoctl}: no such file")
    if option.calicoctl and not os.access(option.calicoctl, os.X_OK):
        raise UsageProblem(f"--calicoctl {option.calicoctl}: no program that can be run; chmod +x makes it one")
    if option.max_minutes is not None and option.max_minutes <= 0:
        raise UsageProblem(f"--max-minutes {option.max_minutes:g}: expected more than 0")
    if option.run and not (option.restore or option.janitor):
        raise UsageProblem(f"--run {option.run} says which run is put back: add --restore")
    labels(option.label)
    check_claims(option.claim)
    return Settings(
        timings=load_timings(Path(option.timings) if option.timings else None, lab=choice.own_lab),
        images=Images(
            mirrors=tuple(Mirror.parse(text) for text in option.image_registry),
            choices=image_choices(Path(option.images)) if option.images else {},
            pull_secrets=tuple(option.image_pull_secret),
        ),
        pod_limits=PodLimits.parse(option.pod_limits) if option.pod_limits else None,
        cover=Cover(
            at_most=option.max_nodes_per_os or Cover.at_most,
            nodes=tuple(name.strip() for text in option.nodes for name in text.split(",") if name.strip()),
            selector=option.node_selector or "",
            every=option.every_node,
        ),
        tolerations=tuple(Toleration.parse(text) for text in option.tolerate),
        workers=replace(LAB_WORKERS if choice.own_lab else Workers(), watch=0 if option.no_watch else Workers.watch),
        calicoctl=Path(option.calicoctl) if option.calicoctl else None,
        calico_version=option.calico_version,
        windows_calico_version=option.windows_calico_version,
        external_target=external_target(option.external_target) if option.external_target else None,
        max_minutes=option.max_minutes,
        dry_run=option.dry_run,
        keep=option.keep,
        capture_packets=option.capture_packets,
        disruptive=allowed or (choice.own_lab and not option.no_disruptive),
        cluster_disruptive=option.allow_cluster_disruptive or (choice.own_lab and not option.no_disruptive),
        max_disrupted_nodes=option.max_disrupted_nodes or Settings.max_disrupted_nodes,
        delete_emptydir_data=option.delete_emptydir_data,
        disruptive_node=option.disruptive_node or "",
        run_id=run_id,
        worker=worker,
    )


def labels(given: Sequence[str]) -> dict[str, str]:
    """What ``--label`` says of the run.  Raises UsageProblem."""
    found: dict[str, str] = {}
    for text in given:
        key, equals, value = (word.strip() for word in text.partition("="))
        if not (key and equals and value):
            raise UsageProblem(f"--label {text}: expected KEY=VALUE, for example release=v3.32.0-rc1")
        if found.setdefault(key, value) != value:
            raise UsageProblem(f"--label {text}: {key} is {found[key]} already")
    return found


def check_claims(wanted: list[str]) -> None:
    """Refuse claims that the catalog does not know.  Raises UsageProblem."""
    claims = catalog()
    for claim in wanted:
        if claim not in claims:
            near = claims.nearest(claim)
            meant = f"; meant {' or '.join(near)}?" if near else ""
            raise UsageProblem(f"--claim {claim}: no such claim{meant} (pytest --list-claims shows all)")


def repeat_command(config: pytest.Config, claims: list[str], nodes: Sequence[str] = ()) -> str:
    """The command that runs just these claims again on the same cluster; of an OS of ``nodes`` on these alone."""
    option = config.option
    words = [product.command(), *(f"--claim {claim}" for claim in claims)]
    for name in (
        "cluster",
        "kubeconfig",
        "context",
        "lab_profile",
        "calicoctl",
        "calico_version",
        "windows_calico_version",
        "external_target",
        "timings",
        "images",
        "pod_limits",
        "disruptive_node",
        "max_disrupted_nodes",
        *(("max_nodes_per_os", "node_selector") if not nodes else ()),
    ):
        value = getattr(option, name)
        if value:
            words.append(f"--{name.replace('_', '-')}={shlex.quote(str(value))}")
    words += [f"--image-registry={shlex.quote(text)}" for text in option.image_registry]
    words += [f"--image-pull-secret={name}" for name in option.image_pull_secret]
    words += [f"--tolerate={shlex.quote(taint)}" for taint in option.tolerate]
    named = nodes or option.nodes
    words += [f"--nodes={','.join(named)}"] if named else []
    words += ["--every-node"] if option.every_node and not nodes else []
    flags = ("allow_disruptive", "allow_cluster_disruptive", "delete_emptydir_data", "capture_packets")
    words += [f"--{name.replace('_', '-')}" for name in flags if getattr(option, name)]
    return " ".join(words)
