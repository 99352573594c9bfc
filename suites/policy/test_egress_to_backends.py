# SPDX-License-Identifier: Apache-2.0
"""An egress rule that selects pods opens the path to them, by their addresses and by a Service in
front of them."""

from conformance.fixtures import Case, Expect, Policy, Services, WorkerPods
from conformance.marks import either_policy_api, verifies

LINUX = "linux client"
WINDOWS = "windows client"
SELECTED = "the one rule selects Linux servers"
BEHIND = "policies see the backend behind the Service's address, and the rule selects it"
NOT_SELECTED = "no rule selects Windows servers"
NO_RULE = "policies see the backend behind the Service's address, and no rule selects it"
NO_POLICY = "no policy selects these clients"


@either_policy_api("egress_to_backends")
@verifies("POL-1", part="{policy}: egress to a Service's backends, linux client")
@verifies("POL-1", part="{policy}: egress to a Service's backends, windows client")
def test_only_the_selected_backends_are_reached(
    pods: WorkerPods, services: Services, policy: Policy, expect: Expect
) -> None:
    linux = pods.clients("linux")
    windows = pods.clients("windows")
    elsewhere = pods.elsewhere("linux") + pods.elsewhere("windows")
    allowed = pods.servers("linux")
    others = pods.servers("windows")
    expect.change(
        policy.filled(client=linux + windows, server=allowed),
        Case(linux, allowed, tcp=8080, open=True, part=LINUX, because=SELECTED),
        Case(linux, allowed, through=services.by_address, open=True, part=LINUX, because=BEHIND),
        Case(linux, others, tcp=8080, open=False, part=LINUX, because=NOT_SELECTED),
        Case(linux, others, through=services.by_address, open=False, part=LINUX, because=NO_RULE),
        Case(windows, allowed, tcp=8080, open=True, part=WINDOWS, because=SELECTED),
        Case(
            windows, allowed, through=services.by_address, open=True, part=WINDOWS, because=BEHIND
        ),
        Case(windows, others, tcp=8080, open=False, part=WINDOWS, because=NOT_SELECTED),
        Case(
            windows, others, through=services.by_address, open=False, part=WINDOWS, because=NO_RULE
        ),
        Case(
            elsewhere, others, tcp=8080, through=services.by_address, open=True, because=NO_POLICY
        ),
    )
    expect.removed(policy, because="without a policy everything is allowed")
