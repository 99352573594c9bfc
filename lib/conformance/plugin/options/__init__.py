# SPDX-License-Identifier: Apache-2.0
"""The command line: options, and the settings that follow from them. Each contradiction or unknown
value causes an error of one clear line.

Messages write ``--kubeconfig=PATH`` with the equals sign. Before pytest knows these options, it
mistakes a separate word that is an existing path for a test path. It then searches for its
configuration there instead of in the checkout.
"""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conformance.catalog import catalog
from conformance.errors import UsageProblem
from conformance.model.meant import known_as, meant
from conformance.plugin.options.refusals import REFUSALS, parsed
from conformance.run.choice import Choice, choose
from conformance.run.image_choices import image_choices
from conformance.settings import (
    Cover,
    Images,
    Mirror,
    PodLimits,
    Settings,
    Timings,
    Toleration,
    Workers,
    external_target,
    load_timings,
)

GRACE = "CALICO_CONFORMANCE_GRACE"
"""The environment variable with the seconds that Kubernetes gives the run's pod to end."""
GRACE_LEFT = 30.0
"""The part of the seconds in ``GRACE`` that is reserved for the report, after everything is
restored."""

OPTIONS: dict[tuple[str, str], dict[str, str]] = {
    ("cluster", "cluster that the conformance suites run on"): {
        "--cluster=KIND": "lab: start an embedded lab for this run (default); "
        "kubeconfig: the cluster that KUBECONFIG names; "
        "in-cluster: the cluster of this pod, with its service account",
        "--kubeconfig=PATH": "run on the cluster that this file names (write --kubeconfig=PATH)",
        "--context=NAME": "context in the kubeconfig, or in KUBECONFIG's files",
        "--lab-profile=NAME": "kind of lab (see `hybridlab profiles`)",
        "--lab-powershell=PROGRAM": "a pwsh that runs the probe programs of the lab's Windows "
        "pods, with the timings of a real cluster",
        "--namespaces-prefix=PREFIX": "run in the namespaces PREFIX-... that the cluster's owner has prepared, and "
        "change nothing else (`calico-conformance namespaces PREFIX` prints them)",
        "--keep": "leave the run's objects on the cluster, and print how to remove them",
        "--image-registry=[UPSTREAM=]PREFIX": "take images from this registry, or only those of one upstream: "
        "mcr.microsoft.com=registry.example/mcr (repeatable)",
        "--images=FILE": "YAML with name, tag, digest or pull secret of single images (docs/images.md)",
        "--list-images": "list the images that the named cluster needs "
        "(without a named cluster, those for all Windows builds), and end",
        "--pod-limits=cpu=N,memory=N": "give every container of the suite's pods these limits",
        "--image-pull-secret=NAME": "pull with this secret (repeatable)",
        "--tolerate=KEY[=VALUE][:EFFECT]": "taint that the suite's pods tolerate, in "
        "addition to the usual Windows and "
        "control-plane ones (repeatable)",
        "--calicoctl=PATH": "program that writes Calico objects where their v3 API is not served",
        "--external-target=ADDRESS[:PORT]": "a host outside the cluster that answers ping, "
        "and TCP on this port "
        "(default 80); a lab has one of its own",
        "--calico-version=VERSION": "judge by this version instead of the detected version",
        "--windows-calico-version=VERSION": "version of Calico on the Windows nodes, if it differs and cannot be "
        "read (AKS, services by hand)",
        "--timings=FILE": "YAML with timings in place of the packaged ones, or calibration.json",
        "--restore": "restore the changes of runs that died, remove what they left, and end",
        "--janitor": "the same as --restore; with --dry-run only list what dead runs have left",
        "--run=ID": "with --restore or --janitor: only this run, if you know that its "
        "machine no longer exists",
        "--dry-run": "print every change that the selected tests (or --janitor) would make, and make none",
    },
    ("covered nodes", "nodes that the conformance suites decide on"): {
        "--max-nodes-per-os=N": "cover up to N nodes of each operating system "
        f"(default {Cover.at_most}); one node of each Windows build is always covered",
        "--nodes=NAME,...": "cover exactly these nodes; an operating system without a named node "
        "is covered as usual (repeatable)",
        "--node-selector=KEY[=VALUE],...": "cover exactly the nodes with these labels",
        "--every-node": "cover all nodes that take pods",
        "--workers-per-windows-node=N": "let -n auto start N workers where Windows nodes limit it, "
        "and N PowerShells at once on such a node, with a matching number of agents "
        "(default 2, or what "
        "--timings says)",
    },
    ("claims", "claims that the conformance suites decide"): {
        "--claim=ID": "run only tests of this claim (repeatable)",
        "--world=FILE": "run only this world of policies, or those of a folder (docs/policy.md)",
        "--story=FILE": "run only this story of events, or those of a folder (docs/stories.md)",
        "--explore=MINUTES": "run only random stories, for MINUTES; needs the extra `explore`",
        "--seed=N": "with --explore: the seed of the random stories (default 1)",
        "--smoke": "run only a quick check of every node: agent, exec, image pull, one path",
        "--quick": "run the tests that show most known faults in a few minutes, none of them "
        "disruptive; qualifies nothing (docs/selecting.md)",
        "--shard=I/N": "run the I-th of N parts of the tests, none of them disruptive; "
        "`calico-conformance merge` makes one report of all (docs/in-cluster.md)",
        "--max-minutes=N": "begin no test after N minutes: running tests are finished, "
        "everything is removed, the rest is "
        "NOT_RUN",
        "--plan": "print for each claim what would run on this cluster and why, and end",
        "--list-claims": "list the catalog and which claims have tests, and end",
        "--long": "with --list-claims: also print each claim's sources, its check and its "
        "observations",
        "--allow-disruptive": "also run tests that change a whole node, such as restarting Felix",
        "--allow-cluster-disruptive": "also run tests that change what the whole cluster shares (VXLAN-9, VXLAN-10), if "
        "its owner has opted in",
        "--max-disrupted-nodes=N": "disrupt at most this number of Windows nodes (default: 4)",
        "--delete-emptydir-data": "evict pods with emptyDir too when nodes are drained",
        "--allow-node-fill": "also run tests that cordon a Windows node and fill it with pause "
        "pods (IPAM-4, IPAM-7, XLC-4; on labs IPAM-2, IPAM-9, IPAM-13 and XSVC-11, too)",
        "--allow-load-balancer": "also run tests that ask for load balancers, which a cloud "
        "charges for (XSVC-10)",
        "--disruptive-node=NAME": "make changes of a whole node, such as a drain, on this node only",
        "--no-disruptive": "run no disruptive tests, not even on the run's own lab",
        "--capture-packets": "after a failure, capture packets of one failing path "
        "on the nodes of both ends, while the path is tried again",
        "--no-watch": "leave out the standing watch, which probes paths throughout the run (POL-1)",
        "--events=FILE": "write a JSON line for each test begun and ended, decision, cause and "
        "note as it happens (docs/schema)",
        "--report-dir=DIR": "where reports go, one folder per run (default: reports)",
    },
    ("qualification", "qualification by the run's report"): {
        "--require=SET[,SET]": "report whether the run qualifies for these sets (core, ...)",
        "--waivers=FILE": "YAML with verdicts that are accepted, by whom and until when",
        "--attest=FILE": "YAML with a person's answers to claims that no program can decide",
        "--accept-unverified-tls": "let sets pass although nobody verified the API server's "
        "certificate, or the connection to it is plain HTTP",
        "--fail-on=VERDICT[,VERDICT]": "exit code 1 also when a claim has one of these verdicts",
        "--baseline=REPORT": "compare with this report; exit code 1 when a verdict became worse",
        "--rerun-of=REPORT": "run again the tests that are VIOLATED, INCONCLUSIVE or NOT_RUN in this report; report on both runs",
        "--label=KEY=VALUE": "label the run in all its reports: release=v3.32.0-rc1, by=jane (repeatable)",
    },
}
"""The help of each option with its argument, by group. An option without an argument is a flag."""
EXAMPLES = {
    "-n auto": "everything, on a lab of its own",
    "-k vxlan": "one subject; --claim DEMO-7: one claim",
    "--kubeconfig=lane.yaml --plan": "what would run on a cluster, and why; only reads",
    "--kubeconfig=lane.yaml -n auto --require core": "does the cluster qualify?",
}
"""Examples of options that decide what a run does."""
OF_TYPE: dict[str, dict[str, Any]] = {
    "--cluster": {"choices": ("lab", "kubeconfig", "in-cluster"), "metavar": None},
    "--max-nodes-per-os": {"type": int},
    "--max-disrupted-nodes": {"type": int},
    "--workers-per-windows-node": {"type": int},
    "--max-minutes": {"type": float},
    "--explore": {"type": float},
    "--seed": {"type": int, "default": 1},
}
"""Options whose value is not a string."""


def help_lines(command: str) -> list[str]:
    """Return the text above the options in a run's help: its purpose, examples, exit codes."""
    return [
        "Run the conformance suite for Calico for Windows on a cluster, or on a lab of its own.",
        "",
        "examples:",
        *(f"  {command} {words:50} {what}" for words, what in EXAMPLES.items()),
        "",
        "exit codes: 0 nothing violated; 1 a claim is VIOLATED, or a gate fails; 2 interrupted;",
        "  3 internal error; 4 options or files that cannot be used; 5 nothing selected;",
        "  6 something is undecided; 7 no usable environment",
        "",
        "The suite's own options come first, pytest's after them.",
        "",
    ]


def add_options(parser: pytest.Parser) -> None:
    """Register the options with pytest, before pytest's own."""
    before = "_anonymous"
    for (name, about), options in OPTIONS.items():
        group = parser.getgroup(name, about, after=before)
        before = name
        for words, choices in options.items():
            option, _, takes = words.partition("=")
            taken: dict[str, Any] = {"metavar": takes} if takes else {"action": "store_true"}
            taken |= {"action": "append", "default": []} if choices.endswith("(repeatable)") else {}
            group.addoption(option, help=choices, **{**taken, **OF_TYPE.get(option, {})})


WITH_PATHS = (
    "--kubeconfig", "--timings", "--calicoctl", "--lab-powershell", "--report-dir", "--images", "--waivers", "--attest", "--baseline",
    "--rerun-of", "--world", "--story", "--events",
)  # fmt: skip


def joined(arguments: Sequence[str]) -> list[str]:
    """Return the command line with ``--option=PATH`` for ``--option PATH`` if the value is a
    path."""
    found: list[str] = []
    for argument in arguments:
        if found and found[-1] in WITH_PATHS:
            found[-1] = f"{found[-1]}={argument}"
        else:
            found.append(argument)
    return found


WORKERS_PER_CPU = 3
"""The maximum number of workers per CPU for a lab, whose nodes share this machine with the workers.
A whole run uses 90 to 130 s of CPU. With six workers on two cores, at a load average of 10, a
policy change took at most 5.6 s of its budget of 10 s, and all verdicts were the same as with four
workers. With eight workers and attempts every 100 ms, Felix exceeded its budget, and claims about
healthy policies were VIOLATED."""
_LAB_MOST = max(1, min(Workers.at_most, WORKERS_PER_CPU * (os.cpu_count() or 1)))
LAB_WORKERS = Workers(
    at_most=_LAB_MOST, per_windows_node=_LAB_MOST, agents=200, agents_per_windows_node=200
)
"""The limits on workers for an embedded lab. PowerShell starts and agents cost next to nothing on a
lab unless they are real."""


def read_choice(config: pytest.Config) -> Choice:
    """Return the cluster that the options choose.  Raise UsageProblem."""
    option = config.option
    given = Counter(str(argument).partition("=")[0] for argument in config.invocation_params.args)
    for words, described in (entry for group in OPTIONS.values() for entry in group.items()):
        name, _, takes = words.partition("=")
        is_once = takes and not described.endswith("(repeatable)")
        # An unset variable of a CI job must not silently remove a gate or the cluster.
        if getattr(option, name[2:].replace("-", "_")) in ("", [""]):
            raise UsageProblem(f"{name}= has no value: leave the option out, or give it a value")
        if is_once and given[name] > 1:
            raise UsageProblem(
                f"{name} is given {given[name]} times, but only one value can count: write it "
                f"once, as {words}"
            )
    return choose(
        cluster=option.cluster,
        kubeconfig=option.kubeconfig,
        context=option.context,
        profile=option.lab_profile,
        powershell=option.lab_powershell,
        keep=option.keep,
    )


def read_settings(config: pytest.Config, choice: Choice, run_id: str, worker: str) -> Settings:
    """Return the settings from all other options. Raise UsageProblem."""
    option = config.option
    for condition, message in REFUSALS:
        if problem := condition(option, choice):
            raise UsageProblem(message.format_map({**vars(option), "problem": problem}))
    labels(option.label)
    check_claims(option.claim)
    lab_may_break = choice.own_lab and not (option.no_disruptive or option.shard)
    timings = load_timings(parsed(Path, option.timings), lab=choice.stands_in)
    return Settings(
        timings=timings,
        images=Images(
            mirrors=tuple(map(Mirror.parse, option.image_registry)),
            choices=image_choices(Path(option.images)) if option.images else {},
            pull_secrets=tuple(option.image_pull_secret),
        ),
        pod_limits=parsed(PodLimits.parse, option.pod_limits),
        cover=Cover(
            at_most=option.max_nodes_per_os or Cover.at_most,
            nodes=tuple(filter(None, map(str.strip, ",".join(option.nodes).split(",")))),
            selector=option.node_selector or "",
            every=option.every_node,
        ),
        tolerations=tuple(map(Toleration.parse, option.tolerate)),
        workers=_workers(option, choice, timings),
        calicoctl=parsed(Path, option.calicoctl),
        calico_version=option.calico_version,
        windows_calico_version=option.windows_calico_version,
        external_target=parsed(external_target, option.external_target),
        max_minutes=option.max_minutes,
        dry_run=option.dry_run,
        plan=option.plan,
        verified_only=_is_verified_only(option),
        namespaces_prefix=option.namespaces_prefix or "",
        keep=option.keep,
        capture_packets=option.capture_packets,
        disruptive=option.allow_disruptive or option.allow_cluster_disruptive or lab_may_break,
        cluster_disruptive=option.allow_cluster_disruptive or lab_may_break,
        max_disrupted_nodes=option.max_disrupted_nodes or Settings.max_disrupted_nodes,
        delete_emptydir_data=option.delete_emptydir_data,
        node_fill=option.allow_node_fill,
        load_balancer=option.allow_load_balancer,
        disruptive_node=option.disruptive_node or "",
        shard=option.shard or "",
        clearing_up=clearing_up(os.environ),
        run_id=run_id,
        worker=worker,
    )


def clearing_up(environ: Mapping[str, str]) -> float:
    """Return the seconds for cleaning up after an interruption. For a Job in the cluster, the grace
    period of its pod determines them. Raise UsageProblem."""
    if not (text := environ.get(GRACE, "")):
        return Settings.clearing_up
    try:
        return max(Settings.clearing_up, float(text) - GRACE_LEFT)
    except ValueError:
        raise UsageProblem(f"{GRACE}={text}: expected seconds") from None


def _workers(option: Any, choice: Choice, timings: Timings) -> Workers:
    """Return the limits of ``-n auto``; a lab of the run's own has limits of its own, since it has
    no real Windows nodes."""
    watch = 0 if option.no_watch else Workers.watch
    wanted: int | None = option.workers_per_windows_node
    if choice.stands_in and wanted is None:
        return replace(LAB_WORKERS, watch=watch)
    return Workers(watch=watch).on_windows_nodes(wanted or timings.run.workers_per_windows_node)


def _is_verified_only(option: Any) -> bool:
    return bool(option.require) and not option.accept_unverified_tls


def labels(given: Sequence[str]) -> dict[str, str]:
    """Return the labels of ``--label``.  Raise UsageProblem."""
    found: dict[str, str] = {}
    for text in given:
        key, equals, value = (word.strip() for word in text.partition("="))
        if not (key and equals and value):
            raise UsageProblem(
                f"--label {text}: expected KEY=VALUE, for example release=v3.32.0-rc1"
            )
        if found.setdefault(key, value) != value:
            raise UsageProblem(f"--label {text}: {key} is {found[key]} already")
    return found


def check_claims(wanted: list[str]) -> None:
    """Replace each claim id in the list by the catalog's spelling. Raise UsageProblem for an
    unknown id."""
    for place, word in enumerate(wanted):
        claim = known_as(word, catalog())
        if claim is None:
            near = meant(word, catalog())
            raise UsageProblem(
                f"--claim {word}: no such claim{near} (calico-conformance claims lists all)"
            )
        wanted[place] = claim
