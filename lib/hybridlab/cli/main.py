# SPDX-License-Identifier: Apache-2.0
"""The ``hybridlab`` command: options and dispatch.

No slow module is imported before the options are checked, so that mistakes are reported at once,
and labd can be started before the API server's libraries are loaded.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hybridlab.cli import machine
from hybridlab.cluster import control, kubeconfig, rundir
from hybridlab.cluster.exits import ENVIRONMENT, OK, USAGE, Stop, report

if TYPE_CHECKING:
    from hybridlab.faults.model import Taps

EXIT_CODES = """\
exit codes: 0 success; 4 options, profile or files cannot be used; 7 this machine does not meet a requirement of the
lab, or a process of the lab died"""


def main(arguments: Sequence[str] | None = None, taps: Taps | None = None) -> int:
    """Run the command and return its exit code. ``taps``: the additions of a test that starts a
    lab."""
    try:
        options = _completed(parser()).parse_args(arguments, argparse.Namespace(taps=taps))
        if missing := machine.missing_packages():
            raise Stop(ENVIRONMENT, missing)
        code = int(options.run(options))
        print(end="", flush=True)
    except BrokenPipeError:  # the reader has closed the pipe, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 128 + signal.SIGPIPE
    except Stop as stop:
        return report(stop)
    return code


def _completed(top: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """If a shell asks for completions, print them and exit; otherwise return the parser
    unchanged."""
    if "_ARGCOMPLETE" in os.environ:
        import argcomplete  # needed only if a shell asks for completions

        argcomplete.autocomplete(top)
    return top


class _Version(argparse.Action):
    """The option that prints the version."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from importlib import metadata  # needed only for this option

        try:
            version = metadata.version("calico-windows-conformance")
        except metadata.PackageNotFoundError:  # run from a source tree that was never installed
            version = "unpackaged"
        parser.exit(OK, f"{parser.prog} {version}\n")


class _Parser(argparse.ArgumentParser):
    """An argument parser that reports wrong options in one line, with the documented exit code."""

    def error(self, message: str) -> Any:
        import difflib  # takes 7 ms, and only mistakes need it

        given = re.search(r"invalid choice: '(\S+)' \(choose from (.*)\)", message)
        near = (
            difflib.get_close_matches(given[1], re.findall(r"[\w-]+", given[2]), 1) if given else []
        )
        self.exit(
            USAGE,
            f"{self.prog}: {message}; {f'did you mean {near[0]}?' if near else f'see {self.prog} --help'}\n",
        )


def _said(what: str, example: str) -> dict[str, Any]:
    """Return a command's help texts, as arguments for its parser."""
    return {
        "help": what,
        "description": f"{what[0].upper()}{what[1:]}.",
        "epilog": f"example:\n  hybridlab {example}\n\n{EXIT_CODES}",
        "formatter_class": argparse.RawDescriptionHelpFormatter,
    }


def parser() -> argparse.ArgumentParser:
    """Return all options, for the command and for the documentation."""
    top = _Parser(
        prog="hybridlab",
        description="A hybrid Linux/Windows Kubernetes cluster with Calico in a box: real packets, no root.",
        epilog=f"examples:\n  hybridlab up --kubeconfig lab.yaml\n  hybridlab status\n\n"
        f"{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action=_Version, nargs=0, help="print the version")
    commands = top.add_subparsers(
        dest="command", required=True, metavar="COMMAND", parser_class=_Parser
    )

    up = commands.add_parser(
        "up",
        **_said(
            "start a lab and keep it until SIGINT or SIGTERM",
            "up --profile bgp --kubeconfig lab.yaml",
        ),
    )
    profile: Any = up.add_argument(
        "--profile",
        default="default",
        metavar="NAME|FILE",
        help="kind of cluster: the name of a profile or a YAML file (default: %(default)s)",
    )
    profile.completer = _profile_names
    up.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        dest="overrides",
        help="change one field of the profile, for example network.pod_cidr=10.244.0.0/16 or nodes.linux.count=1",
    )
    up.add_argument(
        "--kubeconfig",
        type=Path,
        metavar="PATH",
        help="write the kubeconfig to this path (mode 0600)",
    )
    up.add_argument(
        "--port",
        type=_port,
        default=0,
        help="API server's port on 127.0.0.1 (default: any free port)",
    )
    up.add_argument(
        "--ready-fd",
        type=int,
        metavar="N",
        help="also write the ready line to this file descriptor",
    )
    up.add_argument(
        "--powershell",
        metavar="PROGRAM",
        help="a pwsh that runs the probe programs of Windows pods as processes; everything else "
        "of Windows stays emulated",
    )
    up.set_defaults(run=_up)

    status = commands.add_parser(
        "status",
        **_said("show this user's labs, or only the lab of a kubeconfig", "status --json"),
    )
    status.add_argument("--kubeconfig", type=Path, metavar="PATH")
    status.add_argument("--json", action="store_true", help="print JSON")
    status.set_defaults(run=_status)

    commands.add_parser(
        "fetch-nftables",
        **_said(
            "fetch libnftables for this Python, if the system has none; needs no root",
            "fetch-nftables",
        ),
    ).set_defaults(run=_fetch_nftables)

    commands.add_parser(
        "profiles", **_said("list the kinds of cluster that come with the lab", "profiles")
    ).set_defaults(run=_profiles)

    commands.add_parser(
        "assumptions",
        **_said("print the lab's assumptions about Windows nodes as JSON", "assumptions"),
    ).set_defaults(run=_assumptions)

    faults = commands.add_parser(
        "faults", **_said("inject and heal faults in a running lab", "faults list")
    )
    faults.add_argument(
        "--kubeconfig",
        type=Path,
        metavar="PATH",
        help="kubeconfig of the lab (default: the only running lab)",
    )
    kinds = faults.add_subparsers(
        dest="action", required=True, metavar="ACTION", parser_class=_Parser
    )
    kinds.add_parser(
        "list", **_said("list the faults that can be injected", "faults list")
    ).set_defaults(run=_faults_list)
    active = kinds.add_parser(
        "active", **_said("list the faults that are injected now", "faults active")
    )
    active.set_defaults(run=_faults_active)
    inject = kinds.add_parser(
        "inject",
        **_said(
            "inject a fault, verify it and print its id", "faults inject dns-silent node=linux-2"
        ),
    )
    fault: Any = inject.add_argument("fault")
    fault.completer = lambda **_: [fault["name"] for fault in _all_faults()]
    inject.add_argument("parameters", nargs="*", metavar="KEY=VALUE")
    inject.set_defaults(run=_faults_inject)
    heal = kinds.add_parser(
        "heal", **_said("remove one fault by its id, or all faults", "faults heal")
    )
    heal.add_argument("id", nargs="?", help="default: all")
    heal.set_defaults(run=_faults_heal)
    # --kubeconfig is accepted before and after the action's name; without an option after the
    # name, the value before the name stays.
    for command in (
        active,
        inject,
        heal,
    ):
        command.add_argument(
            "--kubeconfig",
            type=Path,
            metavar="PATH",
            default=argparse.SUPPRESS,
            help=argparse.SUPPRESS,
        )
    return top


def _profile_names(**_: object) -> list[str]:
    from hybridlab.profiles.load import names  # yaml is needed here only

    return names()


def _port(text: str) -> int:
    if not text.isdigit() or not 0 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port (0 to 65535)")
    return int(text)


def _up(options: argparse.Namespace) -> int:
    from hybridlab.cli import up  # wrong options are refused before the lab's code is loaded

    if sys.platform != "linux":
        raise Stop(ENVIRONMENT, f"this machine cannot run a lab: {machine.lacks()[0]}")
    return up.run(
        profile_name=options.profile,
        overrides=options.overrides,
        kubeconfig_path=options.kubeconfig,
        port=options.port,
        ready_fd=options.ready_fd,
        powershell_program=options.powershell,
        taps=options.taps,
    )


def _fetch_nftables(_: argparse.Namespace) -> int:
    from hybridlab.cli import fetch_nftables  # no other command needs it

    return fetch_nftables.run()


def _profiles(_: argparse.Namespace) -> int:
    from hybridlab.profiles.load import load, names  # yaml is needed here only

    for name in names():
        print(f"{name:12} {load(name).description}")
    return OK


def _assumptions(_: argparse.Namespace) -> int:
    from hybridlab import assumed  # yaml is needed here only

    print(json.dumps([{"id": name, **one} for name, one in assumed.assumptions().items()]))
    return OK


def _status(options: argparse.Namespace) -> int:
    directories = [_directory(options.kubeconfig)] if options.kubeconfig else _running()
    found = [control.ask(directory / "control.sock", {"op": "status"}) for directory in directories]
    if options.json:
        print(json.dumps(found, indent=1))
    elif not found:
        print("no lab of this user is running")
    for status in [] if options.json else found:
        print(
            f"{status['profile']}: {status['nodes']} nodes, {status['pods']} pod{'s' * (status['pods'] != 1)}, "
            f"up {status['seconds']:.0f} s, "
            f"pid {status['pid']}, {status['server']}, kubeconfig {status['kubeconfig']}, "
            f"faults {', '.join(status['faults']) or 'none'}"
        )
    return OK


def _all_faults() -> list[dict[str, Any]]:
    # needs no lab, but imports most of the lab's code
    from hybridlab.faults.injector import Injector
    from hybridlab.networks.registry import fault_types

    return Injector.catalogue(fault_types().values())


def _faults_list(_: argparse.Namespace) -> int:
    for fault in _all_faults():
        print(f"{fault['name']:24} {fault['scope']:14} {fault['description']}")
        for name, meaning in fault["parameters"].items():
            print(f"{'':24}   {name}: {meaning}")
    return OK


def _faults_active(options: argparse.Namespace) -> int:
    for fault in _ask(options, {"op": "active"}):
        pairs = (f"{key}={value}" for key, value in fault["parameters"].items())
        print(f"{fault['id']:8} {fault['fault']} {' '.join(pairs)}")
    return OK


def _faults_inject(options: argparse.Namespace) -> int:
    parameters = {}
    for pair in options.parameters:
        key, equals, value = pair.partition("=")
        if not equals:
            raise Stop(USAGE, f"a parameter of the fault is {pair!r}, expected KEY=VALUE")
        parameters[key] = value
    print(_ask(options, {"op": "inject", "fault": options.fault, "parameters": parameters})["id"])
    return OK


def _faults_heal(options: argparse.Namespace) -> int:
    _ask(
        options,
        {"op": "heal", "id": options.id} if options.id not in (None, "all") else {"op": "heal-all"},
    )
    return OK


def _ask(options: argparse.Namespace, request: dict[str, Any]) -> Any:
    if options.kubeconfig:
        directory = _directory(options.kubeconfig)
    else:
        running = _running()
        if len(running) != 1:
            raise Stop(
                USAGE,
                f"{len(running)} labs of this user are running, expected one; start a lab with "
                "hybridlab up, or name the lab with --kubeconfig",
            )
        directory = running[0]
    return control.ask(directory / "control.sock", request)


def _running() -> list[Path]:
    return [path for path, alive in rundir.labs() if alive]


def _directory(path: Path) -> Path:
    """Return the directory of the running lab that wrote a kubeconfig. Raise Stop."""
    if not path.exists():
        raise Stop(USAGE, f"--kubeconfig {path}: no such file")
    directory = kubeconfig.lab_of(path)
    if directory is None:
        raise Stop(USAGE, f"--kubeconfig {path}: was not written by a lab")
    if not rundir.alive(directory):
        raise Stop(
            USAGE, f"--kubeconfig {path}: its lab no longer runs; start a lab with: hybridlab up"
        )
    return directory
