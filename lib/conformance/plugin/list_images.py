# SPDX-License-Identifier: Apache-2.0
"""``--list-images``: the images of the suite's pods, for the named cluster or for all Windows
builds.

Each line has two columns and a comment: the published image, and the image that kubelets pull.
Mirror scripts can read the list.
"""

from collections.abc import Callable, Iterator, Sequence

import pytest

from conformance.errors import MissingCapability, SuiteError, UsageProblem, first_line
from conformance.facts.detect import node_facts
from conformance.kube.access import Access
from conformance.kube.client import Kube
from conformance.kube.first_contact import first_contact
from conformance.kube.refused import ApiRefused, ApiUnreachable
from conformance.model.by_key import by_key
from conformance.model.facts import NodeFacts
from conformance.plugin import options
from conformance.pods import images
from conformance.printing import say
from conformance.run.choice import Choice
from conformance.settings import Images


def command(config: pytest.Config, door: Callable[[Choice], Access]) -> int:
    """Print the list; return the exit code."""
    try:
        choice = options.read_choice(config)
        settings = options.read_settings(config, choice, "images", "main")
        if choice.own_lab:
            say(*every_build(settings.images))
            return 0
        access = door(choice)
    except UsageProblem as error:
        raise pytest.UsageError(str(error)) from None
    kube = Kube(access, settings.timings.run, read_only=True)
    try:
        say(*of_nodes([node_facts(obj) for obj in kube.objects("v1", "Node")], settings.images))
        return 0
    except (ApiRefused, ApiUnreachable) as error:
        say(f"ERROR: {first_contact(access, error)}", error=True)
    except SuiteError as error:
        say(f"ERROR: {first_line(error)}", error=True)
    finally:
        kube.close()
    return 7


def every_build(chosen: Images) -> Iterator[str]:
    """Yield the image list for all Windows builds for which the suite has images."""
    builds = by_key((tag, str(build)) for build, tag in images.WINDOWS_TAGS.items())
    for system, published in images.published().items():
        for image in published:
            there = builds.get(images.split(image)[1], []) if system == "windows" else []
            yield _line(
                image, chosen, f"Windows build {', '.join(there)}" if there else system.capitalize()
            )


def of_nodes(nodes: Sequence[NodeFacts], chosen: Images) -> Iterator[str]:
    """Yield the image list for the nodes of a cluster. A node without an image of the suite becomes
    a comment."""
    wanted: dict[str, list[str]] = {}
    for node in nodes:
        try:
            for image in images.for_node(node):
                wanted.setdefault(image, []).append(node.name)
        except MissingCapability as error:
            yield f"# {str(error).partition(chr(10))[0]}"
    yield from (_line(image, chosen, f"node {', '.join(names)}") for image, names in wanted.items())


def _line(image: str, chosen: Images, why: str) -> str:
    return f"{image} {images.reference(image, chosen)}  # {why}"
