"""Who a rule means where pods lack its label, or have the name of another: what lacks a label differs from every value,
and an account is one of the policy's own namespace.
"""

from conformance.fixtures import Expect, Policy, Relabel, Sides, WorkerPods
from conformance.marks import either_policy_api, manifest, needs, verifies


@either_policy_api("all_but_guests")
@verifies("POL-1", part="{policy}: a label that some pods lack", provisional=True)
def test_who_lacks_the_label_differs_from_who_has_it(
    policy: Policy, sides: Sides, relabel: Relabel, expect: Expect
) -> None:
    relabel.label_as_guest(*sides.strangers)
    because = "the rule admits pods whose label is another one, and the friend has none"
    expect.change(policy, open=sides.opened, closed=sides.closed, because=because)


@manifest("policy/calico/own_accounts.yaml")
@needs(calico_policy=True)
@verifies("POL-1", part="calico: accounts of one name in two namespaces", provisional=True)
def test_an_account_of_another_namespace_is_another_account(
    pods: WorkerPods, policy: Policy, sides: Sides, expect: Expect
) -> None:
    here = sides.between(sides.friends, pods.elsewhere("windows"))
    because = "the rule names an account of its own namespace, and the strangers' has the same name"
    expect.change(policy, open=here.opened, closed=here.closed, because=because)
