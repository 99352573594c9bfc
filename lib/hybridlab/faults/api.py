# SPDX-License-Identifier: Apache-2.0
"""Faults between a client and the API server: refused requests, silent watches, and connections
that are cut for a while."""

from collections.abc import Mapping
from functools import partial
from typing import Literal

from hybridlab.api.interference import Silence
from hybridlab.faults.lab_parts import LabParts
from hybridlab.faults.model import Entries, Fault, Parameter, Switch, Types, count, seconds

TYPES = Types()

PARAMETERS = (
    Parameter("seconds", "duration in seconds"),
    Parameter("namespace", "only requests about objects in this namespace", ""),
    Parameter("first", "maximum number of requests (0: all)", "0"),
    Parameter("of", "only requests whose path and query end with this text, such as eviction", ""),
)


def _refuses(code: Literal[429, 500, 503], words: str) -> None:
    def make(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
        return _refusing(lab, identity, parameters, code)

    make.__doc__ = f"The API server answers {code} {words} for a while."
    TYPES.fault(f"api-{code}", "api", *PARAMETERS, scope="all, namespace")(make)


def _refusing(
    lab: LabParts, identity: str, given: Mapping[str, str], code: Literal[429, 500, 503]
) -> Fault:
    lasting = seconds("seconds", given["seconds"])
    first = count("first", given["first"])
    made = lab.interference
    where = f" in namespace {given['namespace']}" if given["namespace"] else ""
    where += f" that end with {given['of']}" if given["of"] else ""

    def evidence() -> list[str]:
        remaining = made.refusing(identity)
        return (
            [f"for {remaining:.1f} s more, the API server answers requests{where} with {code}"]
            if remaining > 0
            else []
        )

    on = partial(
        made.refuse,
        identity,
        code,
        lasting,
        namespace=given["namespace"],
        first=first,
        of=given["of"],
    )
    return Switch(on, partial(made.refusals.pop, identity, None), evidence)


_refuses(429, "Too Many Requests")
_refuses(500, "Internal Server Error")
_refuses(503, "Service Unavailable")


@TYPES.fault(
    "watch-silent",
    "api",
    Parameter("namespace", "only watches of objects in this namespace", ""),
    Parameter("first", "maximum number of watches (0: all)", "0"),
    scope="all, namespace",
)
def watch_silent(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """Watches stay open but deliver no more events, as behind a gateway that has forgotten the
    watches."""
    namespace = parameters["namespace"]
    evidence = f"watches{f' in namespace {namespace}' if namespace else ''} deliver no events"
    silence = Silence(namespace=namespace, left=count("first", parameters["first"]) or None)
    return Entries(identity, silence, {evidence: lab.interference.silences})


@TYPES.fault("api-unreachable", "api", Parameter("seconds", "duration in seconds"))
def api_unreachable(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """Every connection to the API server, including execs and watches, is cut for a while."""
    made = lab.interference

    def evidence() -> list[str]:
        remaining = made.going_away(identity)
        return (
            [f"connections to the API server are cut for {remaining:.1f} s more"]
            if remaining > 0
            else []
        )

    on = partial(made.go_away, identity, seconds("seconds", parameters["seconds"]))
    return Switch(on, partial(made.away_until.pop, identity, None), evidence)
