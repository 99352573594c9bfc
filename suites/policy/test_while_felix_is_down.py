"""Felix programs policy and does not carry it: what is in force stays so while there is none, and while it starts."""

from conformance.fixtures import OS, Expect, Felix, Newcomers, Policy, Sides, Throughout
from conformance.marks import each_os, manifest, verifies

STAYS = "what Felix has programmed stays in its node's data plane without it"
NEW = "the new pods have the selected label, and Felix was ready before they came"


@each_os("os")
@manifest("policy/over-time/only_the_friend.yaml")
@verifies("XPOL-18", part="{os} nodes", alone_on="{os}")
def test_who_is_kept_out_stays_out_while_felix_restarts_and_of_pods_that_come_then(
    *,
    policy: Policy,
    sides: Sides,
    felix: Felix,
    newcomers: Newcomers,
    throughout: Throughout,
    expect: Expect,
    own_nodes: tuple[str, ...],
    os: OS,
) -> None:
    here, restart = sides.on(own_nodes, os), lambda: felix.restart_together(own_nodes)
    one_rule = policy.filled(server=here.servers, friend=here.friends)
    expect.change(one_rule, open=here.opened, closed=here.closed, because="the one rule lets the friend in")
    throughout.closed_while(restart, closed=[here.closed], beside=[here.beside], because=STAYS)
    new = newcomers.twins(here.servers)
    both = here.joined_by(new)
    expect.matrix(open=both.opened, closed=both.closed, new=new, because=NEW)
