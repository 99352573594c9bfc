# SPDX-License-Identifier: Apache-2.0
"""Sets of policies open and close paths as documented, whatever parts of the policy language they
use, also after an edit.

The oracle gives the expectation for each pair of pods; worlds (sets of policies) and edits are
data, chosen to show known misreadings of policies.
"""

from conformance.fixtures import InWorld
from conformance.marks import each_world, needs

pytestmark = [needs(linux=1, windows=1, v3_api=True)]


@each_world()
def test_policies_of_a_world_open_and_close_what_they_say(world: InWorld) -> None:
    world.holds(because="the policies in force imply this result")


@each_world(edits=True)
def test_an_edit_of_a_world_opens_and_closes_what_it_says(world: InWorld) -> None:
    world.holds(because="the policies in force imply this result")
