# SPDX-License-Identifier: Apache-2.0
"""Policies open and close paths as documented after each event: pods come back, end slowly or lose
their readiness, and objects to which policies refer are edited.

The oracle gives the expectation after each event. Stories (sequences of events) are data, chosen to
find state that a data plane does not update.
"""

from conformance.fixtures import InStory
from conformance.marks import each_story, needs

pytestmark = [needs(linux=1, windows=1, v3_api=True)]


@each_story()
def test_policies_are_in_force_after_each_event_of_a_story(story: InStory) -> None:
    story.holds(because="the policies in force imply this result")
