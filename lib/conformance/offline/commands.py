# SPDX-License-Identifier: Apache-2.0
"""``calico-conformance policy`` and its commands: ``diff``, ``ask``, ``check``."""

import argparse
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from conformance.errors import UsageProblem
from conformance.kube import manifest
from conformance.offline import assertions, compare, formats, inputs, walk
from conformance.offline.summary import FEW, Summary
from conformance.offline.text import EVERYTHING, MOST_CELLS, text, wrapped
from conformance.policy.reach import Reach
from conformance.printing import plain, say

CLUSTER = "cluster"
"""The word that, in place of a file, stands for the cluster of a kubeconfig."""
FORMATS = ("text", "json", "markdown", "html")
DESCRIPTIONS = {
    "": "Print who reaches whom under these policies: as promised, on Windows, and by release.\n"
    "Further commands: policy diff, policy ask, policy check; each has its own --help.",
    "diff": "Print what a change of policies opens and closes, for whom, and by which rule.",
    "ask": "Walk one path through tiers, policies and rules, in each column.",
    "check": "Check a list of assertions about what has to be open or closed.",
}
EXAMPLES = {
    "": """examples:
  calico-conformance policy manifests/ --address 203.0.113.7
  helm template chart | calico-conformance policy - --format html > policies.html
  calico-conformance policy --kubeconfig=lane.yaml --all""",
    "diff": """examples:
  calico-conformance policy diff cluster new-policy.yaml --apply --kubeconfig=lane.yaml
  calico-conformance policy diff old/ new/ pods.yaml --fail-on opens
  calico-conformance policy diff promise windows manifests/
  calico-conformance policy diff v3.29 v3.31 manifests/""",
    "ask": """examples:
  calico-conformance policy ask manifests/ --from shop/web --to shop/db --port 5432
  calico-conformance policy ask manifests/ --from 203.0.113.7 --to 'shop/*' --protocol icmp""",
    "check": """examples:
  calico-conformance policy check closed.yaml manifests/ --junit policies.xml
  where closed.yaml has
    - {name: no strangers, from: 203.0.113.7, to: 'shop/*', port: 8080, expect: closed}""",
}
Parser = Callable[..., argparse.ArgumentParser]


def run(given: Sequence[str], parser: Parser) -> int:
    """Carry out the command; return the exit code. Raise UsageProblem for input that cannot be
    used."""
    inputs.standard_input.cache_clear()
    commands = {"diff": _diff, "ask": _ask, "check": _check}
    name = given[0] if given and given[0] in commands else ""
    made = parser(
        prog=f"calico-conformance policy {name}".rstrip(),
        description=DESCRIPTIONS[name],
        epilog=f"{EXAMPLES[name]}\n\nexit codes: 0 done; 1 --fail-on or an assertion is not met; "
        "4 options or files that cannot\nbe used; 7 a cluster that cannot be reached, or that "
        "refuses access",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _common(made)
    {"": _reach_options, "diff": _diff_options, "ask": _ask_options, "check": _check_options}[name](
        made
    )
    options = made.parse_intermixed_args(given[1:] if name else given)
    return commands[name](options) if name else _reach(options)


def _common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--address",
        action="append",
        default=[],
        metavar="IP",
        help="add this address as a further end",
    )
    parser.add_argument(
        "--kubeconfig",
        type=Path,
        metavar="FILE",
        help="read the objects of this cluster, too; nothing is written",
    )
    parser.add_argument("--context", metavar="NAME", help="a context in the kubeconfig")
    parser.add_argument("--all", action="store_true", help="print every line; shorten no list")


def _reach_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="*", metavar="FILE", help="files, folders, - or cluster")
    parser.add_argument("--format", choices=FORMATS, default="text")


def _diff_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("old", metavar="OLD", help="a file, a folder, -, cluster, or a column")
    parser.add_argument("new", metavar="NEW", help="like OLD; promise, windows, v3.31 are columns")
    parser.add_argument(
        "files", nargs="*", metavar="FILE", help="files with objects that belong to both sides"
    )
    parser.add_argument("--apply", action="store_true", help="NEW is applied on top of OLD")
    parser.add_argument(
        "--column",
        default=compare.OWN,
        metavar="NAME",
        help="promise, windows or a release such as v3.31; default: each pod's own system",
    )
    parser.add_argument(
        "--fail-on", choices=compare.FAILS, help="exit code 1 if there is such a change"
    )
    parser.add_argument("--format", choices=FORMATS, default="text")


def _ask_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="*", metavar="FILE", help="files, folders, - or cluster")
    parser.add_argument(
        "--from", dest="source", required=True, metavar="END", help="a pod or an address"
    )
    parser.add_argument("--to", dest="destination", required=True, metavar="END")
    parser.add_argument("--port", type=int, metavar="N", help="not needed for ICMP")
    parser.add_argument(
        "--protocol", default="TCP", metavar="NAME", help="TCP, UDP, SCTP, ICMP or a number"
    )


def _check_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("assertions", type=Path, metavar="ASSERTIONS", help="a YAML list")
    parser.add_argument("files", nargs="*", metavar="FILE", help="files, folders, - or cluster")
    parser.add_argument(
        "--junit", type=Path, metavar="FILE", help="write the results for a CI system"
    )


def _given(options: argparse.Namespace, files: Sequence[str]) -> inputs.Given:
    """Return the objects of files, and of the cluster if :data:`CLUSTER` is given."""
    paths = [path for path in files if path != CLUSTER]
    wants_cluster = len(paths) < len(files) or (not files and options.kubeconfig)
    found = inputs.files(paths)
    if not files and not wants_cluster:
        raise UsageProblem(
            "name a file, a folder or a cluster: see calico-conformance policy --help"
        )
    if wants_cluster:
        # imported only here: most answers are about files, and need no modules for TLS, which load
        # slowly
        from conformance.kube.access import from_environment, from_kubeconfig
        from conformance.kube.client import Kube

        access = (
            from_kubeconfig(options.kubeconfig, options.context)
            if options.kubeconfig
            else from_environment(os.environ, options.context)
        )
        kube = Kube(access)
        try:
            found = inputs.applied(inputs.cluster(kube), found)
        finally:
            kube.close()
    return found


def _reach(options: argparse.Namespace) -> int:
    given = _given(options, options.files)
    summary = Summary(Reach(given.objects, options.address), given.without_namespace)
    if options.format == "text":
        say(*text(summary, whole=options.all))
    elif options.format == "json":
        print(formats.as_json(formats.as_plain(summary)), end="")
    else:
        made = formats.as_html if options.format == "html" else formats.as_markdown
        print(made(summary), end="")
    return 0


def _diff(options: argparse.Namespace) -> int:
    columns = [compare.is_column(name) for name in (options.old, options.new)]
    if any(columns):
        if not all(columns):
            raise UsageProblem(
                "policy diff: name two columns or two inputs, not a column and an input"
            )
        reach = Reach(_given(options, options.files).objects, options.address)
        sides = [compare.Side(reach, compare.column(name)) for name in (options.old, options.new)]
    else:
        if options.old == options.new == "-":
            raise UsageProblem("policy diff: standard input cannot be both OLD and NEW")
        old = _given(options, [options.old, *options.files])
        new = _given(options, [options.new, *([] if options.apply else options.files)])
        after = inputs.applied(old, new) if options.apply else new
        sides = [
            compare.Side(Reach(each.objects, options.address), compare.column(options.column))
            for each in (old, after)
        ]
    found = compare.Comparison(*sides)
    if options.format == "json":
        print(formats.as_json(compare.plain(found)), end="")
    elif options.format != "text":
        made = formats.diff_html if options.format == "html" else formats.diff_markdown
        print(made(found), end="")
    else:
        limits = (EVERYTHING, EVERYTHING) if options.all else (MOST_CELLS, FEW)
        say(*compare.lines(found, *limits))
    return 1 if options.fail_on and found.fails(options.fail_on) else 0


def _ask(options: argparse.Namespace) -> int:
    ends = (options.source, options.destination)
    addresses = dict.fromkeys([*options.address, *filter(assertions.is_address, ends)])
    reach = Reach(_given(options, options.files).objects, addresses)
    protocol, port = walk.at_port(options.protocol, options.port, "--")
    for pair in walk.pairs(reach, *ends):
        say(" to ".join(end.name for end in pair))
        for line in walk.lines(reach, pair, protocol, port):
            indent = line[: len(line) - len(line.lstrip())]
            say(*wrapped(indent, line.strip(), f"{indent}    "))
    return 0


def _check(options: argparse.Namespace) -> int:
    documents = manifest.read(options.assertions)
    addresses = dict.fromkeys([*options.address, *assertions.addresses(documents)])
    reach = Reach(_given(options, options.files).objects, addresses)
    results = assertions.results(reach, documents)
    if options.junit:
        options.junit.write_text(plain(assertions.junit(results)), encoding="utf-8")
    say(*assertions.lines(results, EVERYTHING if options.all else FEW))
    return 1 if any(one.wrong for one in results) else 0
