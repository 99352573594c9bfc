# SPDX-License-Identifier: Apache-2.0
"""``calico-conformance``: the suite where it is installed, and what can be done with reports once a run is over.

Only ``run``, ``rerun`` and ``kubeconfig`` touch a cluster.

Exit codes are those of a run: 0; 1, worse than the older report, or a gate that fails; 4, a file that cannot be used;
6, a gate that could not be decided; 7, a cluster that cannot be reached, or refuses.
"""

import argparse
import datetime
import difflib
import errno
import itertools
import os
import re
import shlex
import signal
import stat
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from conformance import product
from conformance.catalog import catalog, digest, kinds
from conformance.errors import SuiteError, UsageProblem, first_line
from conformance.kube import runner
from conformance.kube.access import from_environment, from_kubeconfig
from conformance.kube.client import Kube
from conformance.kube.manifest import dump
from conformance.kube.refused import ApiRefused
from conformance.policy import reach_text
from conformance.policy.reach import Reach
from conformance.qualify import again, gate, waivers
from conformance.qualify.compare import as_json, as_markdown, as_text, compare
from conformance.qualify.sets import sets
from conformance.qualify.stored import Report, read
from conformance.report import page, summed_up, terminal
from conformance.report.pack import pack
from conformance.report.page import answer
from conformance.report.terminal import printable

ROOT = product.root()
RERUN_USAGE = "calico-conformance rerun REPORT --kubeconfig=FILE [option of pytest ...]"
WORKERS = 2
"""For which namespaces are prepared: what `-n auto` mostly starts."""
FORMS = {"text": as_text, "json": as_json, "markdown": as_markdown}


def main(arguments: Sequence[str] | None = None) -> int:
    """The program.  Returns its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    getattr(sys.stdout, "reconfigure", dict)(
        errors="backslashreplace"
    )  # a name that no terminal shows ends nothing
    if given[:1] == ["run"]:  # its options are pytest's, which argparse would refuse
        _run(given[1:])
    try:
        options = _parser().parse_args(given)
        code: int = options.run(options) or 0
        print(end="", flush=True)
    except OSError as error:
        if error.filename is None:  # nothing that the user named
            if error.errno not in (errno.EPIPE, errno.ENOSPC):
                raise
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for what is left when the process ends
        if isinstance(error, BrokenPipeError):  # who read it has enough, as `head` has
            return 128 + signal.SIGPIPE
        print(f"ERROR: {error.filename or 'what it writes'}: {error.strerror}", file=sys.stderr)
        return 4
    except UsageProblem as problem:
        print(f"ERROR: {problem}", file=sys.stderr)
        return 4
    except SuiteError as error:
        print(f"ERROR: {first_line(error)}", file=sys.stderr)
        return 7
    return code


class _Parser(argparse.ArgumentParser):
    """One whose errors are those of this program."""

    def error(self, message: str) -> NoReturn:
        """Raise UsageProblem, with the command that was meant where another was given."""
        given = re.search(r"invalid choice: '(\S+)' \(choose from (.*)\)", message)
        words = re.findall(r"[\w-]+", given[2]) if given else []
        near = difflib.get_close_matches(given[1], words, 1) if given else []
        hint = f"meant {near[0]}?" if near else f"see {self.prog} --help"
        raise UsageProblem(f"{self.prog}: {message}; {hint}")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="calico-conformance", description="Run the suite; read, judge and compare its reports."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, command in _commands().items():
        one = commands.add_parser(name, help=command.help, usage=command.usage)
        one.set_defaults(run=command.run)
        for words, described in command.arguments.items():
            one.add_argument(*words.split(), **described)
    return parser


@dataclass(frozen=True)
class Command:
    """A command of the program."""

    help: str
    run: Callable[[argparse.Namespace], int | None] | None
    """None: :func:`main` carries it out."""
    arguments: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Arguments by their names, as ``add_argument`` takes them."""
    usage: str | None = None


def _commands() -> dict[str, Command]:
    """Return all commands by name."""
    file = {"type": Path, "metavar": "FILE"}
    report = {"type": Path, "help": "conformance.json, or the folder of a run"}
    workers = {"type": int, "metavar": "N", "default": WORKERS}
    purposes = "; ".join(f"{gate_set.name}: {gate_set.purpose}" for gate_set in sets().values())
    return {
        "run": Command(
            "run the suite: every option is pytest's, and reports go to ./reports", None
        ),
        "files": Command(
            "print the folder that has suites/ and manifests/, roles included", _files
        ),
        "kubeconfig": Command(
            "make a user for the suite with the rights that it needs, and print a kubeconfig of it",
            _kubeconfig,
            {
                "--kubeconfig": {
                    **file,
                    "help": "the administrator's (default: what KUBECONFIG names)",
                },
                "--context": {"metavar": "NAME", "help": "context in it"},
                "--role": {"choices": runner.ROLES, "help": f"default: {runner.ROLES[0]}"},
                "--with": {
                    "choices": runner.BESIDE,
                    "action": "append",
                    "default": [],
                    "dest": "beside",
                    "help": "a role beside it (repeatable)",
                },
                "--hours": {
                    "type": float,
                    "default": 8.0,
                    "help": "that its token lasts (default: %(default)g)",
                },
                "--namespaces-prefix": {
                    "metavar": "PREFIX",
                    "help": "make what `namespaces PREFIX` prints, and a user of that role alone",
                },
                "--workers": {
                    **workers,
                    "help": "that such runs may have (default: %(default)d)",
                },
            },
        ),
        "namespaces": Command(
            "print what prepares a cluster for runs with --namespaces-prefix: "
            "namespaces, roles, a user",
            _namespaces,
            {
                "prefix": {"metavar": "PREFIX", "help": "beginning of their names"},
                "--workers": {**workers, "help": "that a run may have (default: %(default)d)"},
            },
        ),
        "diff": Command(
            "what changed from one report to another; exit code 1 when it became worse",
            _diff,
            {
                "old": {**report, "metavar": "OLD"},
                "new": {"type": Path, "metavar": "NEW"},
                "--format": {"choices": FORMS, "default": "text"},
                "-v --verbose": {
                    "action": "store_true",
                    "help": "a line for each part and build of a claim, too",
                },
            },
        ),
        "show": Command(
            "the summary of a report, or its page",
            _show,
            {
                "report": {**report, "metavar": "REPORT"},
                "--html": {**file, "help": "write the page of the report instead"},
                "--format": {"choices": ("text", "markdown"), "default": "text"},
                "-v --verbose": {"action": "store_true", "help": "with figures of the run"},
            },
        ),
        "pack": Command(
            "one archive of a run to attach to an issue, without secrets and host paths",
            _pack,
            {
                "run_folder": {"type": Path, "metavar": "RUN", "help": "the folder of a run"},
                "--to": {**file, "help": "default: RUN.zip in this folder"},
            },
        ),
        "gate": Command(
            "whether a report qualifies for sets of claims",
            _gate,
            {
                "report": {**report, "metavar": "REPORT"},
                "--require": {
                    "metavar": "SET[,SET]",
                    "required": True,
                    "action": "append",
                    "help": purposes,
                },
                "--waivers": file,
            },
        ),
        "rerun": Command(
            "run again what a report leaves open or found wrong, and merge",
            _rerun,
            {
                "report": {**report, "metavar": "REPORT"},
                "rest": {
                    "nargs": argparse.REMAINDER,
                    "metavar": "...",
                    "help": "the cluster, and other options of pytest",
                },
            },
            RERUN_USAGE,
        ),
        "claims": Command(
            "what each claim says on a kind of cluster in health",
            _claims,
            {
                "--kind": {
                    "default": "",
                    "metavar": "NAME",
                    "help": "bgp, aks ... (default: list the kinds)",
                }
            },
        ),
        "policy": Command(
            "who reaches whom under policies, as promised, on Windows and by release",
            _policy,
            {
                "files": {
                    **file,
                    "nargs": "+",
                    "help": "YAML: policies, tiers, namespaces, pods ...",
                },
                "--address": {
                    "action": "append",
                    "default": [],
                    "metavar": "IPV4",
                    "help": "an end that is no pod",
                },
            },
        ),
    }


def _claims(options: argparse.Namespace) -> None:
    """The claims of a kind, or the kinds."""
    print(*kinds.lines(options.kind), sep="\n")


def _run(rest: Sequence[str]) -> NoReturn:
    """Become pytest, as ``pytest`` in a checkout, from any folder: signals and the exit code are its own."""
    program = [
        sys.executable,
        "-m",
        "pytest",
        "-c",
        str(ROOT / "pyproject.toml"),
        str(ROOT / "suites"),
    ]
    named = any(word.partition("=")[0] == "--report-dir" for word in rest)
    here = [] if named else [f"--report-dir={Path.cwd() / 'reports'}"]
    if _caches(rest):  # pytest knows no cache_dir without the plugin of its cache
        here += ["-o", f"cache_dir={Path.cwd() / '.pytest_cache'}"]
    sys.stdout.flush()
    os.execv(sys.executable, [*program, *here, *rest])


def _caches(rest: Sequence[str]) -> bool:
    """Whether pytest, called with these options and those of its environment, keeps its cache."""
    every = [*shlex.split(os.environ.get("PYTEST_ADDOPTS", "")), *rest]
    return "-pno:cacheprovider" not in every and (
        "-p",
        "no:cacheprovider",
    ) not in itertools.pairwise(every)


def _files(_: argparse.Namespace) -> None:
    print(ROOT)


def _namespaces(options: argparse.Namespace) -> None:
    print(dump(runner.user_of_prefix(options.prefix, options.workers)[1]), end="")


def _kubeconfig(options: argparse.Namespace) -> None:
    """Printed to a file, it is one that its owner alone may read."""
    if not 600 <= options.hours * 3600 <= 1 << 32:  # what a TokenRequest may ask for, and no NaN
        raise UsageProblem(
            f"--hours {options.hours:g}: a token lasts from 10 minutes (0.17) to 136 years"
        )
    prefix = options.namespaces_prefix
    role = options.role or runner.ROLES[0]
    if prefix and (options.role or options.beside):
        raise UsageProblem("--namespaces-prefix has a role of its own: leave out --role and --with")
    account, objects = (
        runner.user_of_prefix(prefix, options.workers)
        if prefix
        else runner.user_of(role, options.beside)
    )
    kube = Kube(
        from_kubeconfig(options.kubeconfig, options.context)
        if options.kubeconfig
        else from_environment(os.environ, options.context)
    )
    try:
        user = runner.runner(kube, account, objects, round(options.hours * 3600))
        text = runner.kubeconfig(kube, user)
    except ApiRefused as refusal:
        hint = (
            "; roles and users are made by an administrator of the cluster"
            if refusal.forbidden
            else ""
        )
        raise SuiteError(f"{first_line(refusal)}{hint}") from None
    finally:
        kube.close()
    if stat.S_ISREG(os.fstat(1).st_mode):
        os.fchmod(sys.stdout.fileno(), 0o600)
    print(text, end="")
    roles = ", ".join(("read-only", runner.PREPARED) if prefix else (role, *options.beside))
    option = f"--namespaces-prefix={prefix} " if prefix else ""
    told = f"user {user.name} of namespace {runner.NAMESPACE}, roles {roles}, until {user.ends:%Y-%m-%d %H:%M} UTC"
    print(f"{told}; next: {product.command()} --kubeconfig=FILE {option}--plan", file=sys.stderr)


def _rerun(options: argparse.Namespace) -> NoReturn:
    """As ``run``, which leaves its report beside the others."""
    again.to_run_again(read(options.report), digest())
    _run([f"--rerun-of={options.report}", *options.rest])


def _policy(options: argparse.Namespace) -> None:
    # imported here, because no other command needs a YAML parser
    from conformance.kube import manifest

    given = [obj for file in options.files for obj in manifest.load(file)]
    objects = [
        obj for one in given for obj in (one.get("items") or [] if one["kind"] == "List" else [one])
    ]
    print("\n".join(reach_text.text(Reach(objects, options.address))))


def _diff(options: argparse.Namespace) -> int:
    found = compare(read(options.old), read(options.new))
    print(printable(FORMS[options.format](found, options.verbose)), end="")
    return found.exit_code


def _show(options: argparse.Namespace) -> None:
    report = read(options.report)
    if options.html:
        page.write(
            report.plain, options.html, folder=options.report if options.report.is_dir() else None
        )
    else:
        lines = _summary(report, options.verbose)
        if options.format == "markdown":  # columns run together there but in a block of code
            fence = "`" * max(
                [3, *(len(several) + 1 for several in re.findall("`+", "\n".join(lines)))]
            )
            lines = [f"# {printable(answer.headline(report.plain)[0])}", fence, *lines, fence]
        print("\n".join(lines))


def _pack(options: argparse.Namespace) -> None:
    run = options.run_folder
    if not (run / "conformance.json").is_file():
        raise UsageProblem(f"{run}: no folder of a run: it has no conformance.json")
    archive = options.to or Path(f"{run.resolve().name}.zip")
    inside, left_out = pack(run, archive, (Path.home(), Path.cwd(), ROOT, Path(sys.prefix)))
    print(
        f"{archive}: {len(inside)} files, {archive.stat().st_size / 1e6:.1f} MB; look through it before you publish it"
    )
    if left_out:
        print(f"left out: {', '.join(left_out)}")


def _summary(report: Report, figures: bool) -> list[str]:
    """Which run it was, and what its end said."""
    run = report.run
    told = (line for line, _ in terminal.summary(report.plain, Path(report.where), figures=figures))
    return [printable(f"run {run['id']} of {run['started']}: {run['command']}"), *told]


def _gate(options: argparse.Namespace) -> int:
    today = datetime.datetime.now(datetime.UTC).date()
    accepted = waivers.load(options.waivers, catalog(), today) if options.waivers else ()
    report = read(options.report)
    results = gate.judge(report, sets().named(",".join(options.require)), accepted, catalog())
    told = [
        {
            "name": one.name,
            "answer": one.answer,
            "headline": one.headline,
            "waived": [],
            "obstacles": list(map(str, one.obstacles)),
        }
        for one in results
    ]
    plain = {**report.plain, "gates": told}
    for each in summed_up.gates(plain):
        print(*each["headlines"], *(f"  {printable(line)}" for line in each["obstacles"]), sep="\n")
    if beside := summed_up.beside_gates(plain):
        print(f"{terminal.BESIDE}: {', '.join(beside)}")
    for waiver in gate.unused(accepted, results):
        print(f"waiver not used: {waiver}")
    return gate.exit_code(results)


if __name__ == "__main__":
    sys.exit(main())
