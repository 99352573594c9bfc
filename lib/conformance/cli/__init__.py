# SPDX-License-Identifier: Apache-2.0
"""``calico-conformance``: runs the suite where it is installed, and reads the reports of finished
runs.

Only ``run``, ``rerun``, ``calibrate``, ``kubeconfig`` and ``fetch`` touch a cluster.

Exit codes mean the same as for a run: 0; 1 if the result is worse than the older report or a gate
fails; 4 if a file cannot be used; 6 if a gate could not be decided; 7 if a cluster cannot be
reached, or refuses a request.
"""

import argparse
import difflib
import errno
import json
import os
import re
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from conformance import product
from conformance.errors import SuiteError, UsageProblem, first_line
from conformance.printing import guarded, say

# Each command itself imports other parts of the suite, since importing all parts takes half a
# second.
ROOT = product.root()
PROGRAM = "calico-conformance"
RERUN_USAGE = "calico-conformance rerun REPORT --kubeconfig=FILE [option of pytest ...]"
WORKERS = 2
"""The number of workers for which namespaces are prepared by default: `-n auto` mostly starts two.
"""
EXIT_CODES = """\
exit codes: 0 done; 4 options or files that cannot be used; 7 a cluster that cannot be reached, or
refuses a request"""
EXIT_CODES_OF_JUDGING = """\
exit codes: 0 done; 1 worse than the older report, or a gate that fails; 4 options or files that
cannot be used; 6 an undecided gate"""
EXIT_CODES_OF_READING = "exit codes: 0 done; 4 options or files that cannot be used"
EXIT_CODES_OF_A_RUN = """\
exit codes: 0 nothing is violated; 1 a claim is VIOLATED, or a gate fails; 4 options or files that
cannot be used; 6 a claim is undecided, or a gate is incomplete; 7 a cluster that cannot be reached
or refuses a request, or no report; further codes: docs/running.md and docs/in-cluster.md"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    getattr(sys.stdout, "reconfigure", dict)(
        errors="backslashreplace"
    )  # a name that the terminal cannot show must not end the command
    if given[:1] == ["run"]:  # the options of `run` are pytest's, which argparse would refuse
        from conformance.cli.start import run

        run(given[1:])
    with guarded():
        return _carry_out(given)


def _carry_out(given: Sequence[str]) -> int:
    """Run the command of the arguments; return the exit code."""
    try:
        code = _code(given)
        print(end="", flush=True)
    except OSError as error:
        if error.filename is None:  # standard output failed, not a file that the user named
            if error.errno not in (errno.EPIPE, errno.ENOSPC):
                raise
            # the output that is still buffered goes nowhere
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        # the reader of the pipe has closed it, as `head` does
        if isinstance(error, BrokenPipeError):
            return 128 + signal.SIGPIPE
        print(f"ERROR: {error.filename or 'the output'}: {error.strerror}", file=sys.stderr)
        return 4
    except UsageProblem as problem:
        print(f"ERROR: {problem}", file=sys.stderr)
        return 4
    except SuiteError as error:
        print(f"ERROR: {first_line(error)}", file=sys.stderr)
        return 7
    return code


def _code(given: Sequence[str]) -> int:
    """Carry out a command; return its exit code."""
    if given[:1] == ["policy"]:
        from conformance.offline import commands

        return commands.run(given[1:], _Parser)
    if given and given[0] in OF_JOBS:
        from conformance.jobs import commands as of_jobs  # imports the modules that merge reports

        return of_jobs.run(given, _parser_of(given[0], OF_JOBS[given[0]]))
    options, rest = make_parser().parse_known_args(given)
    if rest:
        program = f"{PROGRAM} {given[0]}"
        words = " ".join(rest)
        raise UsageProblem(f"{program}: unrecognized arguments: {words}; see {program} --help")
    return options.run(options) or 0


class _Parser(argparse.ArgumentParser):
    """An argument parser that reports its errors as UsageProblem."""

    def error(self, message: str) -> NoReturn:
        """Raise UsageProblem; for an unknown command, suggest the most similar one."""
        given = re.search(r"invalid choice: '(\S+)' \(choose from (.*)\)", message)
        words = re.findall(r"[\w-]+", given[2]) if given else []
        near = difflib.get_close_matches(given[1].lower(), words, 1) if given else []
        hint = f"did you mean {near[0]}?" if near else f"see {self.prog} --help"
        if near:  # the suggestion would be lost in the list of all commands
            message = message.partition(" (choose from")[0]
        raise UsageProblem(f"{self.prog}: {message}; {hint}")


def _parser_of(name: str, command: "Command") -> argparse.ArgumentParser:
    """Return a parser for a command that has options of its own; the options are not added yet."""
    return _Parser(prog=f"{PROGRAM} {name}", allow_abbrev=False, **command.described())


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the commands."""
    parser = _Parser(
        prog=PROGRAM,
        description="Run the suite; read, judge and compare its reports.",
        epilog="examples:\n  calico-conformance run -n auto\n"
        "  calico-conformance show reports/latest\n\n"
        "exit codes: each command's own --help lists them",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print version and catalog")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, command in _commands().items():
        subparser = commands.add_parser(
            name, help=command.help, usage=command.usage, **command.described()
        )
        subparser.set_defaults(run=command.run)
        for words, described in command.arguments.items():
            subparser.add_argument(*words.split(), **described)
    return parser


@dataclass(frozen=True)
class Command:
    """A command of the program."""

    help: str
    run: Callable[[argparse.Namespace], int | None] | None
    """The function that carries out the command. None: :func:`main` carries it out."""
    arguments: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The arguments by their names, in the form that ``add_argument`` takes."""
    usage: str | None = None
    examples: Sequence[str] = ()
    exit_codes: str = EXIT_CODES

    def described(self) -> dict[str, Any]:
        """Return the command's help texts, as arguments for a parser; the help of the command's own
        options is not included."""
        examples = (f"  {each}" for each in self.examples)
        return {
            "description": f"{self.help[:1].upper()}{self.help[1:]}.",
            "epilog": "\n".join(["examples:", *examples, "", self.exit_codes]),
            "formatter_class": argparse.RawDescriptionHelpFormatter,
        }


OF_JOBS = {
    "job": Command(
        "print the objects that run the suite inside a cluster: a Job with its user",
        None,
        examples=("calico-conformance job --image=IMAGE -- --require=core | kubectl apply -f -",),
    ),
    "fetch": Command(
        "wait for a Job made with `job`, and write its results as one archive; exit code: that of "
        "the run",
        None,
        examples=("calico-conformance fetch --kubeconfig=lane.yaml --to=results",),
        exit_codes=EXIT_CODES_OF_A_RUN,
    ),
    "hold": Command(
        "keep the results until they are fetched (runs in the Job's pod)",
        None,
        examples=("calico-conformance hold /results/POD",),
    ),
    "merge": Command(
        "make one report of several runs on one cluster; exit code: as for a run of everything",
        None,
        examples=("calico-conformance merge reports/core reports/policy --to=reports/both",),
        exit_codes=EXIT_CODES_OF_A_RUN,
    ),
}
"""Commands about runs inside the cluster. Each command parses its own options."""


class _Version(argparse.Action):
    """The option that prints the version of the suite."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from conformance.report import provenance

        suite = provenance.suite(ROOT)
        print(
            f"{parser.prog} {suite['version']}, commit "
            f"{suite['commit'].replace(', changed', ' (changed)') or 'unknown (no checkout)'}, "
            f"catalog {suite['catalog'][:12]}"
        )
        parser.exit()


def _commands() -> dict[str, Command]:
    """Return all commands by name."""
    from conformance.cli.reports import FORMS, MATRIX_FORMS, diff, judge, matrix, pack_run, show
    from conformance.cli.start import rerun
    from conformance.cli.users import kubeconfig, namespaces
    from conformance.kube import runner
    from conformance.qualify.sets import sets

    file = {"type": Path, "metavar": "FILE"}
    report = {"type": Path, "help": "conformance.json, or the folder of a run"}
    workers = {"type": int, "metavar": "N", "default": WORKERS}
    form = {"choices": FORMS, "default": "text", "help": "default: %(default)s"}
    purposes = "; ".join(f"{gate_set.name}: {gate_set.purpose}" for gate_set in sets().values())
    return {
        "run": Command(
            "run the suite: every option is pytest's, and reports go to ./reports",
            None,
            examples=("calico-conformance run --kubeconfig=lane.yaml -n auto --require core",),
            exit_codes=EXIT_CODES_OF_A_RUN,
        ),
        "files": Command(
            "print the folder that has suites/ and manifests/, roles included",
            _files,
            examples=("ls $(calico-conformance files)/manifests/rbac",),
            exit_codes=EXIT_CODES_OF_READING,
        ),
        "kubeconfig": Command(
            "make a user with the rights that the suite needs, and print the user's kubeconfig",
            kubeconfig,
            {
                "--kubeconfig": {
                    **file,
                    "help": "the administrator's kubeconfig (default: what KUBECONFIG names)",
                },
                "--context": {"metavar": "NAME", "help": "context in that kubeconfig"},
                "--server": {
                    "metavar": "URL",
                    "default": "",
                    "help": "the cluster's own API server, if that kubeconfig names a gateway",
                },
                "--role": {"choices": runner.ROLES, "help": f"default: {runner.ROLES[0]}"},
                "--with": {
                    "choices": runner.BESIDE,
                    "action": "append",
                    "default": [],
                    "dest": "beside",
                    "help": "a further role (repeatable)",
                },
                "--hours": {
                    "type": float,
                    "default": 8.0,
                    "help": "hours for which the user's token is valid (default: %(default)g)",
                },
                "--namespaces-prefix": {
                    "metavar": "PREFIX",
                    "help": "make what `namespaces PREFIX` prints, and a user with only that role",
                },
                "--workers": {
                    **workers,
                    "help": "maximum workers of a run with these namespaces (default: %(default)d)",
                },
            },
            examples=("calico-conformance kubeconfig --kubeconfig=admin.yaml > lane.yaml",),
        ),
        "namespaces": Command(
            "print the objects that prepare a cluster for runs with --namespaces-prefix: "
            "namespaces, roles, a user",
            namespaces,
            {
                "prefix": {"metavar": "PREFIX", "help": "beginning of the namespaces' names"},
                "--workers": {
                    **workers,
                    "help": "number of workers that a run may have (default: %(default)d)",
                },
            },
            examples=("calico-conformance namespaces team-a | kubectl apply -f -",),
            exit_codes=EXIT_CODES_OF_READING,
        ),
        "images": Command(
            "print the images of the suite's pods, by their published names",
            _images,
            {
                "--lock": {
                    "action": "store_true",
                    "help": "with their digests, as a file for --images (needs crane)",
                },
            },
            examples=("calico-conformance images",),
        ),
        "diff": Command(
            "print the changes between two reports; exit code 1 when a verdict became worse",
            diff,
            {
                "old": {**report, "metavar": "OLD"},
                "new": {"type": Path, "metavar": "NEW"},
                "--format": form,
                "-v --verbose": {
                    "action": "store_true",
                    "help": "also print a line for each part and build of a claim",
                },
            },
            examples=("calico-conformance diff last-release/conformance.json reports/latest",),
            exit_codes=EXIT_CODES_OF_JUDGING,
        ),
        "show": Command(
            "print the summary of a report, or write its page",
            show,
            {
                "report": {**report, "metavar": "REPORT"},
                "--html": {**file, "help": "write the page of the report instead"},
                "--format": form,
                "-v --verbose": {"action": "store_true", "help": "also print figures of the run"},
            },
            examples=("calico-conformance show reports/latest --format json",),
            exit_codes=EXIT_CODES_OF_READING,
        ),
        "matrix": Command(
            "print a table of claims by runs, from reports or a folder of reports; worst first",
            matrix,
            {
                "reports": {**report, "metavar": "REPORT", "nargs": "+"},
                "--html": {**file, "help": "write a page instead"},
                "--format": {
                    "choices": MATRIX_FORMS,
                    "default": "markdown",
                    "help": "default: %(default)s",
                },
            },
            examples=("calico-conformance matrix reports --html=matrix.html",),
            exit_codes=EXIT_CODES_OF_READING,
        ),
        "pack": Command(
            "pack a run into one archive for an issue, without secrets and host paths",
            pack_run,
            {
                "run_folder": {"type": Path, "metavar": "RUN", "help": "the folder of a run"},
                "--to": {**file, "help": "default: RUN.zip in this folder"},
            },
            examples=("calico-conformance pack reports/latest",),
            exit_codes=EXIT_CODES_OF_READING,
        ),
        "gate": Command(
            "judge whether a report qualifies for sets of claims",
            judge,
            {
                "report": {**report, "metavar": "REPORT"},
                "--require": {
                    "metavar": "SET[,SET]",
                    "required": True,
                    "action": "append",
                    "help": purposes,
                },
                "--waivers": {**file, "help": "accepted violations, with owners and end dates"},
                "--accept-unverified-tls": {
                    "action": "store_true",
                    "help": "accept a report although nobody verified the API server's certificate",
                },
                "--format": form,
            },
            examples=("calico-conformance gate reports/latest --require core,policy",),
            exit_codes=EXIT_CODES_OF_JUDGING,
        ),
        "rerun": Command(
            "run again the tests that a report leaves undecided or VIOLATED, and merge",
            rerun,
            {
                "report": {**report, "metavar": "REPORT"},
                "rest": {
                    "nargs": argparse.REMAINDER,
                    "metavar": "...",
                    "help": "the cluster, and other options of pytest",
                },
            },
            RERUN_USAGE,
            ("calico-conformance rerun reports/latest --kubeconfig=lane.yaml -n auto",),
            EXIT_CODES_OF_A_RUN,
        ),
        "calibrate": Command(
            "measure in ten minutes what the suite assumes about nodes; write calibration.json",
            _calibration,
            {
                "--kubeconfig": {**file, "help": "the cluster (default: a lab of its own)"},
                "--context": {"metavar": "NAME", "help": "context in that kubeconfig"},
                "--lab-profile": {"metavar": "NAME", "help": "kind of lab"},
                "--plan": {"action": "store_true", "help": "print what it would do, and end"},
                "--to": {
                    **file,
                    "default": Path("calibration.json"),
                    "help": "default: %(default)s",
                },
                "--minutes": {
                    "type": float,
                    "default": 10.0,
                    "metavar": "N",
                    "help": "end after N minutes (default and maximum: %(default)g)",
                },
                "--nodes": {"metavar": "NAME,...", "default": "", "help": "use only these nodes"},
                "--image-registry": {
                    "action": "append",
                    "default": [],
                    "metavar": "[UPSTREAM=]PREFIX",
                },
                "--tolerate": {"action": "append", "default": [], "metavar": "TAINT"},
                "--report-dir": {**file, "default": Path("reports"), "help": "folder for the log"},
            },
            examples=("calico-conformance calibrate --kubeconfig=lane.yaml",),
        ),
        "calibration": Command(
            "diff OLD NEW: print what differs between two calibrations",
            _calibration,
            {
                "what": {"choices": ("diff",)},
                "old": {"type": Path, "metavar": "OLD", "help": "calibration.json"},
                "new": {"type": Path, "metavar": "NEW"},
            },
            examples=("calico-conformance calibration diff lab.json lane.json",),
        ),
        "claims": Command(
            "list the claims; for each ID, its statement, sources, check and tests",
            _claims,
            {
                "ids": {"nargs": "*", "metavar": "ID", "help": "CONN-1 ... (default: a list)"},
                "--format": form,
                "--kind": {"help": argparse.SUPPRESS},  # the older form of the command `kinds`
            },
            examples=("calico-conformance claims", "calico-conformance claims VXLAN-1 POL-1"),
            exit_codes=EXIT_CODES_OF_READING,
        ),
        "kinds": Command(
            "list the kinds of clusters; for a NAME, each claim's verdict on a healthy cluster",
            _kinds,
            {"kind": {"nargs": "?", "default": "", "metavar": "NAME", "help": "bgp, aks ..."}},
            examples=("calico-conformance kinds", "calico-conformance kinds bgp"),
            exit_codes=EXIT_CODES_OF_READING,
        ),
        "policy": Command(
            "print who reaches whom under policies: as promised, on Windows, and by release",
            None,
            usage="calico-conformance policy [diff|ask|check] [--help] ...",
            examples=("calico-conformance policy policies.yaml pods.yaml",),
        ),
        **OF_JOBS,
    }


def _calibration(options: argparse.Namespace) -> int:
    from conformance.calibrate import command  # imports all modules of a run

    return command.diff(options) if "old" in options else command.calibrate(options)


def _claims(options: argparse.Namespace) -> None:
    """Print a list of all claims, or all fields of the named claims."""
    from conformance.catalog import explained
    from conformance.qualify.sets import sets

    if options.kind is not None:
        return _kinds(options)
    demanded = {name: {demand.claim for demand in each.demands} for name, each in sets().items()}
    chosen = explained.named(options.ids)
    found = explained.explained(chosen, ROOT / "suites", demanded, product.command())
    if options.format == "json":
        print(json.dumps(found, indent=1))
    elif options.format == "markdown":
        say(*explained.as_markdown(found, whole=bool(options.ids)))
    else:
        say(*(explained.as_text(found) if options.ids else explained.as_list(found)))
    return None


def _kinds(options: argparse.Namespace) -> None:
    """Print the kinds of clusters, or the claims of one kind."""
    from conformance.catalog import kinds

    print(*kinds.lines(options.kind), sep="\n")


def _files(_: argparse.Namespace) -> None:
    print(ROOT)


def _images(options: argparse.Namespace) -> None:
    from conformance.pods import image_lock, images

    every = (image for of_system in images.published().values() for image in of_system)
    print("\n".join(image_lock.locked() if options.lock else every))
