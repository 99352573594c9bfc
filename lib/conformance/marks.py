# SPDX-License-Identifier: Apache-2.0
"""The marks of a test file, as constructors that check their arguments when the file is imported.

``pytestmark = [verifies("VXLAN-1", part="{client}->{server} pod-ip"), needs(windows=2)]``.  A wrong
claim id or need ends the run with exit code 4 before anything is touched.  The plugin implements
the effects of the marks.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from conformance.catalog import CatalogError, Needs, catalog, conditions
from conformance.model.endpoint import OS
from conformance.model.meant import meant
from conformance.product import MANIFESTS

ABOUT = {
    "clusterip": "paths through a Service's ClusterIP",
    "tcp": "TCP variants of tests that also exist for UDP, and tests about TCP itself",
    "udp": "paths by UDP",
}
"""Subjects for ``-k`` with their descriptions. Tests name them by :func:`about`, since no claim is
about such a subject alone."""


BUILDS = {
    "17763": ">=17763 <17764", "18362 to 19042": ">=17764 <20348", "20348": ">=20348 <20349",
    "20349 to 26099": ">=20349 <26100", "26100": ">=26100",
}  # fmt: skip
"""Ranges of Windows builds that distinguish parts of claims. Each build is in exactly one range:
Server 2019, builds up to 20H2, Server 2022, builds between Server 2022 and Server 2025, Server 2025
and later."""


def verifies(
    claim: str,
    *,
    part: str = "",
    active: bool = False,
    alone_on: str = "",
    applies: Mapping[str, object] | None = None,
    provisional: bool = False,
) -> pytest.MarkDecorator:
    """Mark a test that decides this claim, or the named part of it; a test may carry several such
    marks.

    ``part`` is stable from run to run, and may name parameters in braces; a part named
    ``linux->windows pod-ip`` (client's OS, server's OS, path) is a cell of the report's matrix.
    ``active``: the part is the half of the claim that changes something, with the isolation that
    the catalog gives to this half. ``alone_on``: the operating system of the nodes on which no
    other test may run meanwhile, or a parameter in braces; by default, the catalog decides.

    ``applies``: for a part that applies to fewer clusters than its claim, the condition, in the
    catalog's syntax: ``{"modes": ["vxlan"]}``. ``provisional``: the part is new, and has not been
    shown on a real cluster yet. Gates do not require it, but its VIOLATED counts.
    """
    claims = catalog()
    if claim not in claims:
        raise pytest.UsageError(f"verifies({claim!r}): no such claim{meant(claim, claims)}")
    if active and claims[claim].active is None:
        raise pytest.UsageError(
            f"verifies({claim!r}, active=True): the catalog knows no active half of {claim}"
        )
    if (applies or provisional) and not part:
        raise pytest.UsageError(
            f"verifies({claim!r}): name the part; conditions of a whole claim belong in the catalog"
        )
    try:
        where = conditions(applies or {})
    except CatalogError as error:
        raise pytest.UsageError(f"verifies({claim!r}, part={part!r}): {error}") from None
    return pytest.mark.verifies(
        claim, part=part, active=active, alone_on=alone_on, applies=where, provisional=provisional
    )


def needs(*, linux: int = 0, windows: int = 0, **what: Any) -> pytest.MarkDecorator:
    """Mark a test that needs more than its claims' own needs; if a need is missing, the test is
    NOT_RUN, with the reason.

    ``what``: the other fields of :class:`Needs`.
    """
    for name, count in (("linux", linux), ("windows", windows)):
        if isinstance(count, bool) or count < 0:
            raise pytest.UsageError(f"needs({name}={count!r}): expected a number of nodes")
    return pytest.mark.needs(Needs(linux=linux, windows=windows, **what))


def manifest(path: str, *, otherwise: str = "") -> pytest.MarkDecorator:
    """Mark a test with the YAML file under ``manifests/`` that a user can apply to get the test's
    policy (the test's twin).

    ``otherwise``: the same policy as Kubernetes writes it, for clusters on which Calico's policy
    cannot be written.
    """
    for item in filter(None, (path, otherwise)):
        if not (MANIFESTS / item).is_file():
            raise pytest.UsageError(f"manifest({item!r}): no such file under {MANIFESTS}")
    return pytest.mark.manifest(path, otherwise=otherwise)


def about(*words: str) -> pytest.MarkDecorator:
    """Mark a test with subjects of ``-k``, such as ``udp``, that its claims do not have."""
    unknown = [word for word in words if word not in ABOUT]
    if unknown:
        raise pytest.UsageError(
            f"about({unknown[0]!r}): no such subject; the subjects are {', '.join(ABOUT)}"
        )
    return pytest.mark.about(*words)


def smoke() -> pytest.MarkDecorator:
    """Mark a test of ``--smoke``: the tests that run for a few minutes on a real cluster before the
    long run."""
    return pytest.mark.smoke


def begins_early() -> pytest.MarkDecorator:
    """Mark a test with a long wait: it begins before all tests except those of ``--quick``, so that
    a run does not wait for this test alone at its end."""
    return pytest.mark.begins_early


def each_world(*, edits: bool = False) -> pytest.MarkDecorator:
    """Parametrize the ``world`` fixture with each shipped world (a set of policies), or with each
    shipped edit of a world.

    The world's file names the claims that the world decides; the world's name is the name of the
    part.
    """
    return pytest.mark.each_world(edits=edits)


def each_story() -> pytest.MarkDecorator:
    """Parametrize the ``story`` fixture with each shipped story. The story's file names the claims
    that the story decides; the story's name is the name of the part."""
    return pytest.mark.each_story()


def after_all_others() -> pytest.MarkDecorator:
    """Mark a test that judges the run's standing watch, which probes paths during the whole run:
    the test begins when no process has any other test left."""
    return pytest.mark.after_all_others


def directions(*, across_nodes: bool = False) -> pytest.MarkDecorator:
    """Parametrize a test with ``client_os`` and ``server_os`` in all four directions, with ids such
    as ``linux-to-windows``.

    ``across_nodes``: client and server are on different nodes, so a direction within one OS needs
    two nodes with this OS.
    """
    systems: tuple[OS, OS] = ("linux", "windows")
    return pytest.mark.parametrize(
        ("client_os", "server_os"),
        [
            pytest.param(
                client,
                server,
                id=f"{client}-to-{server}",
                marks=[needs(**{client: 2})] if across_nodes and client == server else [],
            )
            for client in systems
            for server in systems
        ],
    )


def windows_directions(*, across_nodes: bool = False) -> pytest.MarkDecorator:
    """Parametrize a test with ``client_os`` and ``server_os`` in the three directions that have a
    Windows end.

    ``across_nodes``: as for :func:`directions`.
    """
    systems = [("linux", "windows"), ("windows", "linux"), ("windows", "windows")]
    return pytest.mark.parametrize(
        ("client_os", "server_os"),
        [
            pytest.param(
                *system,
                id="-to-".join(system),
                marks=[needs(windows=2)] if across_nodes and len(set(system)) == 1 else [],
            )
            for system in systems
        ],
    )


def other(os: OS) -> OS:
    """Return ``linux`` for ``windows``, and ``windows`` for ``linux``."""
    return "linux" if os == "windows" else "windows"


def each_os(parameter: str) -> pytest.MarkDecorator:
    """Parametrize a test with each operating system in turn."""
    return pytest.mark.parametrize(parameter, ["linux", "windows"])


def each_build(claim: str, part: str) -> pytest.MarkDecorator:
    """Parametrize a test with ``builds``, a range of Windows builds: each of :data:`BUILDS` in
    turn.

    ``part``: the name of a part of the claim, with ``{build}`` in it; the part applies only to
    clusters with a node of such a build.
    """
    return pytest.mark.parametrize(
        "builds",
        [
            pytest.param(
                builds,
                id=build.replace(" ", "-"),
                marks=[
                    verifies(
                        claim,
                        part=part.format(build=build),
                        applies={"windows_builds": builds},
                        provisional=True,
                    )
                ],
            )
            for build, builds in BUILDS.items()
        ],
    )


def places() -> pytest.MarkDecorator:
    """Parametrize a test with ``place``: the server's place relative to the client's Windows
    node."""
    return pytest.mark.parametrize(
        "place",
        [
            pytest.param("same node", id="same-node"),
            pytest.param("a Linux node", id="linux-node"),
            pytest.param("another Windows node", id="other-windows-node", marks=needs(windows=2)),
        ],
    )


def either_policy_api(name: str) -> pytest.MarkDecorator:
    """Parametrize the ``policy`` fixture with the same policy in Kubernetes' and in Calico's form,
    each with its manifest.

    The manifests are ``policy/kubernetes/NAME.yaml`` and ``policy/calico/NAME.yaml``; parts may
    name the form: ``{policy}``.
    """
    return pytest.mark.parametrize(
        "policy",
        [
            pytest.param("kubernetes", marks=[manifest(f"policy/kubernetes/{name}.yaml")]),
            pytest.param(
                "calico", marks=[manifest(f"policy/calico/{name}.yaml"), needs(calico_policy=True)]
            ),
        ],
        indirect=True,
    )
