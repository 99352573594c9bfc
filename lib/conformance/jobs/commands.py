# SPDX-License-Identifier: Apache-2.0
"""The commands ``calico-conformance job``, ``fetch``, ``hold`` and ``merge``."""

import argparse
import os
import re
import sys
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

from conformance.errors import UsageProblem
from conformance.jobs import holder, merge, objects
from conformance.jobs.fetch import fetch
from conformance.kube import runner
from conformance.kube.access import from_environment, from_kubeconfig
from conformance.kube.client import Kube
from conformance.kube.manifest import dump
from conformance.printing import say

NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,50}[a-z0-9])?")
"""Matches a Job's name that is short enough for the suffix that Kubernetes appends for its pod."""


def run(given: Sequence[str], parser: argparse.ArgumentParser) -> int:
    """Carry out the command; return the exit code. Raise UsageProblem, SuiteError, OSError.

    ``parser``: the command's parser, still without options.
    """
    name, *rest = given
    add_options, carry_out = COMMANDS[name]
    add_options(parser)
    return carry_out(parser.parse_args(rest))


def _job_options(parser: argparse.ArgumentParser) -> None:
    parser.usage = "calico-conformance job --image=IMAGE [option ...] [-- option of the run ...]"
    parser.add_argument("--image", required=True, help="the suite's image (docs/in-cluster.md)")
    parser.add_argument(
        "--name", default="conformance", help="the Job's name (default: %(default)s)"
    )
    parser.add_argument("--role", choices=runner.ROLES, help=f"default: {runner.ROLES[0]}")
    parser.add_argument(
        "--with",
        choices=runner.BESIDE,
        action="append",
        default=[],
        dest="beside",
        help="a further role (repeatable)",
    )
    parser.add_argument(
        "--namespaces-prefix", metavar="PREFIX", default="", help="run in prepared namespaces"
    )
    parser.add_argument(
        "--workers", type=int, default=2, metavar="N", help="workers that have prepared namespaces"
    )
    parser.add_argument(
        "--volume", metavar="CLAIM", default="", help="keep results on this volume, too"
    )
    parser.add_argument("--node", metavar="NAME", default="", help="the Linux node to run on")
    parser.add_argument("--image-pull-secret", metavar="NAME", action="append", default=[])
    parser.add_argument("options", nargs="*", metavar="option of the run")


def _job(options: argparse.Namespace) -> int:
    if not NAME.fullmatch(options.name):
        raise UsageProblem(
            f"--name {options.name}: expected lower-case letters, digits and hyphens, 52 at most"
        )
    if options.namespaces_prefix and (options.role or options.beside):
        raise UsageProblem("--namespaces-prefix has a role of its own: leave out --role and --with")
    words, files = objects.taken_along(options.options)
    wanted = objects.Wanted(
        image=options.image,
        name=options.name,
        role=options.role or runner.ROLES[0],
        beside=options.beside,
        prefix=options.namespaces_prefix,
        workers=options.workers,
        volume=options.volume,
        node=options.node,
        pull_secrets=options.image_pull_secret,
        options=words,
        files=files,
    )
    print(dump(list(objects.objects(wanted))), end="")
    return 0


def _fetch_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--name", default="conformance", help="the Job's name (default: %(default)s)"
    )
    parser.add_argument("--kubeconfig", type=Path, metavar="FILE")
    parser.add_argument("--context", metavar="NAME", help="context in that kubeconfig")
    parser.add_argument(
        "--to", type=Path, default=Path(), metavar="DIR", help="folder for the archive (default: .)"
    )
    parser.add_argument(
        "--minutes", type=float, default=1440.0, metavar="N", help="minutes to wait"
    )


def _fetch(options: argparse.Namespace) -> int:
    if not options.to.is_dir():
        raise UsageProblem(f"--to {options.to}: no such folder")
    if not options.minutes > 0:
        raise UsageProblem(f"--minutes {options.minutes:g}: expected more than 0")
    access = (
        from_kubeconfig(options.kubeconfig, options.context)
        if options.kubeconfig
        else from_environment(os.environ, options.context)
    )
    with closing(Kube(access)) as kube:
        return fetch(kube, options.name, options.to, options.minutes, partial(say, error=True))


def _hold_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("results", type=Path, metavar="FOLDER", help="folder of a Job's results")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--send", action="store_true", help="print the archive as lines")
    what.add_argument("--release", action="store_true", help="let the holder end")


def _hold(options: argparse.Namespace) -> int:
    if options.release:
        holder.release(options.results)
    elif options.send:
        for line in holder.sent(options.results):
            sys.stdout.write(f"{line.decode()}\n")
    else:
        holder.hold(options.results)
    return 0


def _merge_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "reports",
        nargs="+",
        type=Path,
        metavar="REPORT",
        help="conformance.json, or a run's folder",
    )
    parser.add_argument(
        "--to", type=Path, required=True, metavar="DIR", help="new folder for the merged report"
    )


def _merge(options: argparse.Namespace) -> int:
    return merge.merge(options.reports, options.to)


COMMANDS = {
    "job": (_job_options, _job),
    "fetch": (_fetch_options, _fetch),
    "hold": (_hold_options, _hold),
    "merge": (_merge_options, _merge),
}
"""For each command: the function that adds its options, and the function that carries the command
out and returns the exit code."""
