# SPDX-License-Identifier: Apache-2.0
"""The whole advice that failures end with, a family for each input of its choice.

Families of one group differ in the input that their names show. For each condition of the choice,
there are two families that differ only in this condition.

``python -m tests.unit.conformance.expect.golden_advice`` writes golden_advice.txt anew; read the
difference.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from conformance.errors import ProbeBroken
from conformance.expect.explain.between_nodes import Blamed
from conformance.expect.subjects.overlay import ADDRESSES as ADDRESSES_ONLY
from conformance.model.endpoint import Addressing
from conformance.model.observation import Verdict
from conformance.model.stream import StreamVerdict
from tests.unit.conformance.expect import test_resolution as dns
from tests.unit.conformance.expect.failing import (
    ADDRESSES,
    ANOTHER,
    ASTRAY,
    CLIENT,
    CLOSES,
    CLUSTER_IP,
    DNS_FAILED,
    DROPPED,
    LEAK,
    LINUX_POD,
    LINUX_SERVER,
    NAME,
    NEIGHBOUR,
    NO_DENIAL,
    NO_NAME,
    NODE,
    OPENS,
    OTHER_RUN,
    OUTSIDE,
    POD,
    PROHIBITED,
    REFUSED,
    RESET,
    SECOND,
    SERVER,
    SERVICES,
    THIRD,
    UDP,
    UNDECIDED,
    UNREACHABLE,
    UP,
    WAVERS,
    WINDOWS_CLIENT,
    Failing,
    Owner,
    Route,
    WithFelix,
    control_lost,
    node_port,
    not_closed,
    not_open,
    not_reopened,
    on_late_machine,
    overlay,
    reachable,
    service,
)
from tests.unit.conformance.expect.failing_names import (
    Unresolved,
    at_first,
    by_turns,
    late_address,
    no_answer,
    no_record,
    right_address,
    wrong_address,
)
from tests.unit.conformance.expect.failing_streams import (
    StreamLost,
    answered_whole,
    first_action,
    first_only,
    listening,
    lost_by_size,
    never_ready,
    new_pod,
    page,
)
from tests.unit.conformance.expect.subjects.test_overlay import Nodes

TEXTS = Path(__file__).with_suffix(".txt")
DO = re.compile(r"^  do +(.+)$", re.MULTILINE)

NO_ROUTE = Blamed(("route of node linux-1 to block 192.168.3.0/26 of node windows-2: no route",))
NO_SESSION = replace(NO_ROUTE, by="sessions", see="BGP-1")
FABRIC = Blamed(see="the fabric")
DENY, COMPANY = "NetworkPolicy ns/deny (v1)", "GlobalNetworkPolicy company-wide (v3)"
AGENT_GONE = ProbeBroken("the agent is gone")
TWO = service(Addressing.CLUSTER_IP, "10.96.0.7", SERVER, SECOND)
ON_ONE_NODE = service(Addressing.CLUSTER_IP, "10.96.0.7", SERVER, THIRD)
OWN = service(Addressing.CLUSTER_IP, "10.96.0.7", CLIENT)
HEADLESS = service(Addressing.NAME, "web.demo.svc.cluster.local", SERVER, SECOND)
BARE = replace(CLUSTER_IP, backends=())
ENDS = [verdict for verdict in Verdict if verdict not in (Verdict.CONNECTED, Verdict.RESOLVED)]
"""Results of attempts on a path that is not open."""


NOTHING_NEARER: dict[str, Failing] = {
    "nothing observed": not_open(POD),
    "nothing observed, within one node": not_open(NEIGHBOUR.tcp(80)),
    "nothing observed, two servers": not_open(TWO),
    "nothing observed, two servers of one node": not_open(ON_ONE_NODE),
    "nothing observed, outside": not_open(OUTSIDE),
    "no target": not_open(None, DROPPED),
    "DNS_FAILED": not_open(NAME, DNS_FAILED),
    "NO_SUCH_NAME": not_open(NAME, NO_NAME),
    "DNS_FAILED after a connection": not_open(NAME, UP, DNS_FAILED),
    **{f"{end}, pod address": not_open(POD, end) for end in ENDS if end is not DROPPED},
    **{f"{end}, ClusterIP": not_open(CLUSTER_IP, end) for end in ENDS if end is not DROPPED},
    "PROHIBITED, another client": not_open(POD, PROHIBITED, client=WINDOWS_CLIENT),
    "RESET, within one node": not_open(NEIGHBOUR.tcp(80), RESET),
    "TIMED_OUT, outside": not_open(OUTSIDE, DROPPED),
    "TIMED_OUT, outside, Windows client": not_open(OUTSIDE, DROPPED, client=WINDOWS_CLIENT),
    "TIMED_OUT, then REFUSED": not_open(POD, DROPPED, REFUSED),
    "TIMED_OUT, outside, after a connection": not_open(OUTSIDE, UP, DROPPED),
    "REFUSED, outside": not_open(OUTSIDE, REFUSED),
    "REFUSED, node address": not_open(NODE, REFUSED),
    "REFUSED, name": not_open(NAME, REFUSED),
    "REFUSED, pod address, two servers": not_open(replace(POD, backends=(SERVER, SECOND)), REFUSED),
    "REFUSED, two servers by name": not_open(HEADLESS, REFUSED),
    **{
        f"another pod answers, {way}": not_open(target, ANOTHER)
        for way, target in {**ADDRESSES, **SERVICES}.items()
    },
    "another pod answered, and then the server": not_open(CLUSTER_IP, ANOTHER, UP),
    "the server answered, and then another pod": not_open(CLUSTER_IP, UP, ANOTHER),
}
KUBE_PROXY: dict[str, Failing] = {
    "ClusterIP, Linux client": not_open(CLUSTER_IP, REFUSED),
    "ClusterIP, Windows client": not_open(CLUSTER_IP, REFUSED, client=WINDOWS_CLIENT),
    "NodePort of the server's node": not_open(node_port(SERVER), REFUSED),
    "NodePort of the server's node, Linux": not_open(
        node_port(LINUX_SERVER, LINUX_SERVER), REFUSED
    ),
    "NodePort of the client's node": not_open(node_port(CLIENT), REFUSED),
    "NodePort of the client's node, Windows": not_open(
        node_port(WINDOWS_CLIENT), REFUSED, client=WINDOWS_CLIENT
    ),
    "NodePort of a third node": not_open(node_port(SECOND), REFUSED),
    "NodePort of a third node, with a pod there": not_open(node_port(SECOND, at=SECOND), REFUSED),
    "NodePort of a third node, another pod answers": not_open(node_port(SECOND), ANOTHER),
    "NodePort, another pod answers": not_open(node_port(SERVER), ANOTHER),
    "NodePort that the second server's node has": not_open(
        node_port(SECOND, SERVER, SECOND), REFUSED
    ),
}
NEAREST: dict[str, Failing] = {
    "pod address": not_open(POD, DROPPED),
    "pod address, after a connection": not_open(POD, UP, DROPPED),
    "pod address, before a connection": not_open(POD, DROPPED, UP),
    "pod address, no server known": not_open(replace(POD, backends=()), DROPPED),
    "pod address, one policy": not_open(POD, DROPPED, policies=(DENY,)),
    "pod address, two policies": not_open(POD, DROPPED, policies=(DENY, COMPANY)),
    "pod address, no route": not_open(POD, DROPPED, overlay=NO_ROUTE),
    "pod address, no session": not_open(POD, DROPPED, overlay=NO_SESSION),
    "pod address, no route and a policy": not_open(
        POD, DROPPED, overlay=NO_ROUTE, policies=(DENY,)
    ),
    "pod address, fabric": not_open(POD, DROPPED, overlay=FABRIC),
    "pod address, fabric and one policy": not_open(POD, DROPPED, overlay=FABRIC, policies=(DENY,)),
    "pod address, fabric and two policies": not_open(
        POD, DROPPED, overlay=FABRIC, policies=(DENY, COMPANY)
    ),
    "pod address, nodes not read": not_open(
        POD, DROPPED, overlay=Blamed(unread="routes of node linux-1 could not be read")
    ),
    "pod address, UNREACHABLE and no route": not_open(POD, UNREACHABLE, overlay=NO_ROUTE),
    "pod address, UNREACHABLE and a policy": not_open(POD, UNREACHABLE, policies=(DENY,)),
    "pod address, REFUSED, no route and a policy": not_open(
        POD, REFUSED, overlay=NO_ROUTE, policies=(DENY,)
    ),
    "node address": not_open(NODE, DROPPED),
    "node address, one policy": not_open(NODE, DROPPED, policies=(DENY,)),
    "node address, fabric": not_open(NODE, DROPPED, overlay=FABRIC),
    "node address, no route": not_open(NODE, DROPPED, overlay=NO_ROUTE),
    "outside, one policy": not_open(OUTSIDE, DROPPED, policies=(DENY,)),
    "ClusterIP, no server known": not_open(BARE, DROPPED),
    **{
        f"{way}, server closed": not_open(target, DROPPED)
        for way, target in {**SERVICES, "NodePort": node_port(SERVER)}.items()
    },
    **{
        f"{way}, server open": not_open(target, DROPPED, own=(UP,))
        for way, target in {**SERVICES, "NodePort": node_port(SERVER)}.items()
    },
    "ClusterIP, server open at the second attempt": not_open(
        CLUSTER_IP, DROPPED, own=(DROPPED, UP)
    ),
    "ClusterIP, server open at the third attempt": not_open(
        CLUSTER_IP, DROPPED, own=(DROPPED, DROPPED, UP)
    ),
    **{
        f"ClusterIP, server's own address {end}": not_open(CLUSTER_IP, DROPPED, own=(end,))
        for end in ENDS
    },
    "ClusterIP, server cannot be asked": not_open(CLUSTER_IP, DROPPED, own=(AGENT_GONE,)),
    "ClusterIP, server open at its own port alone": not_open(
        CLUSTER_IP, DROPPED, own=(listening(8080, "tcp"),)
    ),
    "ClusterIP, server open at the Service's port alone": not_open(
        CLUSTER_IP, DROPPED, own=(listening(80, "tcp"),)
    ),
    "ClusterIP, server open at the same port": not_open(
        replace(CLUSTER_IP, backend_port=0), DROPPED, own=(listening(80, "tcp"),)
    ),
    "ClusterIP, server open by UDP alone": not_open(
        CLUSTER_IP, DROPPED, own=(listening(8080, "udp"),)
    ),
    "ClusterIP by UDP, server open by UDP alone": not_open(
        replace(CLUSTER_IP, protocol="udp"), DROPPED, own=(listening(8080, "udp"),)
    ),
    "UDP, TCP open": not_open(UDP, DROPPED, own=(UP,)),
    "UDP, TCP cannot be asked": not_open(UDP, DROPPED, own=(AGENT_GONE,)),
    "ClusterIP UNREACHABLE, server open": not_open(CLUSTER_IP, UNREACHABLE, own=(UP,)),
    "ClusterIP UNREACHABLE, server closed": not_open(CLUSTER_IP, UNREACHABLE),
    "ClusterIP REFUSED, server closed": not_open(CLUSTER_IP, REFUSED),
    "ClusterIP, one policy": not_open(CLUSTER_IP, DROPPED, policies=(DENY,)),
    "ClusterIP, two policies": not_open(CLUSTER_IP, DROPPED, policies=(DENY, COMPANY)),
    "ClusterIP, one policy, server open": not_open(
        CLUSTER_IP, DROPPED, policies=(DENY,), own=(UP,)
    ),
    "ClusterIP, no route": not_open(CLUSTER_IP, DROPPED, overlay=NO_ROUTE),
    "ClusterIP, no route, server open": not_open(CLUSTER_IP, DROPPED, overlay=NO_ROUTE, own=(UP,)),
    "ClusterIP, no route and a policy": not_open(
        CLUSTER_IP, DROPPED, overlay=NO_ROUTE, policies=(DENY,)
    ),
    "ClusterIP, fabric": not_open(CLUSTER_IP, DROPPED, overlay=FABRIC),
    "ClusterIP, two servers closed": not_open(TWO, DROPPED),
    "ClusterIP, two servers of one node closed": not_open(ON_ONE_NODE, DROPPED),
    "ClusterIP, one of two servers open": not_open(TWO, DROPPED, own=(first_only,)),
}
REMOVED: dict[str, Failing] = {
    "TIMED_OUT": not_reopened(POD, DROPPED),
    "TIMED_OUT, enforced at the source": not_reopened(POD, DROPPED, side="source"),
    "TIMED_OUT, enforced at the target": not_reopened(POD, DROPPED, side="target"),
    "TIMED_OUT, after a connection": not_reopened(POD, UP, DROPPED),
    "TIMED_OUT, before a connection": not_reopened(POD, DROPPED, UP),
    "TIMED_OUT, another policy there": not_reopened(POD, DROPPED, policies=(DENY,)),
    "TIMED_OUT, no route": not_reopened(POD, DROPPED, overlay=NO_ROUTE),
    "TIMED_OUT, no route and another policy": not_reopened(
        POD, DROPPED, overlay=NO_ROUTE, policies=(DENY,)
    ),
    "TIMED_OUT, ClusterIP, server open": not_reopened(CLUSTER_IP, DROPPED, own=(UP,)),
    "TIMED_OUT, ClusterIP, server open, another policy there": not_reopened(
        CLUSTER_IP, DROPPED, own=(UP,), policies=(DENY,)
    ),
    "TIMED_OUT, outside, another policy there": not_reopened(OUTSIDE, DROPPED, policies=(DENY,)),
    "REFUSED": not_reopened(POD, REFUSED),
    "UNREACHABLE": not_reopened(POD, UNREACHABLE),
    "nothing observed": not_reopened(POD),
}
NOT_CLOSED: dict[str, Failing] = {
    "CONNECTED": not_closed(POD, UP),
    "CONNECTED, enforced at both ends": not_closed(POD, UP, side="both"),
    "CONNECTED, enforced at the source": not_closed(POD, UP, side="source"),
    "CONNECTED, enforced at the target": not_closed(POD, UP, side="target"),
    "CONNECTED, Linux server": not_closed(LINUX_POD, UP),
    "CONNECTED, Linux server, enforced at the target": not_closed(LINUX_POD, UP, side="target"),
    "CONNECTED, Windows client": not_closed(POD, UP, client=WINDOWS_CLIENT),
    "CONNECTED, Windows client, enforced at the source": not_closed(
        POD, UP, client=WINDOWS_CLIENT, side="source"
    ),
    "CONNECTED, Windows client, Linux server": not_closed(LINUX_POD, UP, client=WINDOWS_CLIENT),
    "CONNECTED, within one node": not_closed(NEIGHBOUR.tcp(8080), UP),
    "CONNECTED, within one node, enforced at the target": not_closed(
        NEIGHBOUR.tcp(8080), UP, side="target"
    ),
    "CONNECTED, own Service": not_closed(OWN, UP),
    "CONNECTED, two servers": not_closed(TWO, UP, side="target"),
    "CONNECTED, outside": not_closed(OUTSIDE, UP),
    "CONNECTED, outside, enforced at the target": not_closed(OUTSIDE, UP, side="target"),
    "CONNECTED, no target, enforced at the target": not_closed(None, UP, side="target"),
    "CONNECTED, UDP": not_closed(UDP, UP),
    "CONNECTED, ClusterIP": not_closed(CLUSTER_IP, UP),
    "CONNECTED, NodePort": not_closed(node_port(SERVER), UP),
    "CONNECTED after a denial": not_closed(POD, DROPPED, UP, standing=LEAK),
    "CONNECTED, a policy there and no route": not_closed(
        POD, UP, policies=(DENY,), overlay=NO_ROUTE
    ),
    "REFUSED": not_closed(POD, REFUSED),
    "REFUSED, then CONNECTED": not_closed(POD, REFUSED, UP),
    "CONNECTED, then REFUSED": not_closed(POD, UP, REFUSED),
    "REFUSED and undecided": not_closed(POD, REFUSED, standing=UNDECIDED),
    "UNREACHABLE, this is not a denial": not_closed(POD, UNREACHABLE, standing=NO_DENIAL),
    "UNREACHABLE and undecided": not_closed(POD, UNREACHABLE, standing=UNDECIDED),
    "REFUSED, then CONNECTED, and undecided": not_closed(POD, REFUSED, UP, standing=UNDECIDED),
    "DNS_FAILED": not_closed(NAME, DNS_FAILED, standing=ASTRAY),
    "another pod answers": not_closed(CLUSTER_IP, ANOTHER, standing=ASTRAY),
    "TIMED_OUT, without any control": not_closed(POD, DROPPED, standing=UNDECIDED),
    "TIMED_OUT, without any control, a policy there": not_closed(
        POD, DROPPED, standing=UNDECIDED, policies=(DENY,)
    ),
}
OPEN = Route(POD, (UP, UP), NEIGHBOUR)
WAVERING = Route(POD, (UP, DROPPED), NEIGHBOUR)
DEAD = Route(POD, (DROPPED, DROPPED), NEIGHBOUR)
ARRIVING = not_closed(POD, UP)
LED_NOWHERE = not_closed(NAME, DNS_FAILED, standing=ASTRAY)
CONTROLS: dict[str, Failing] = {
    "each attempt connected": control_lost(OPEN),
    "each attempt connected, packets arrive": control_lost(OPEN, denied=ARRIVING),
    "each attempt connected, the name led nowhere": control_lost(OPEN, denied=LED_NOWHERE),
    "each attempt connected, Windows client": control_lost(Route(POD, (UP,), WINDOWS_CLIENT)),
    "some attempts connected": control_lost(WAVERING),
    "another pod answered": control_lost(Route(POD, (ANOTHER,), NEIGHBOUR)),
    "never asked": control_lost(Route(POD, (), NEIGHBOUR)),
    "no attempt connected, outside": control_lost(Route(OUTSIDE, (DROPPED,), NEIGHBOUR)),
    "no attempt connected, no target": control_lost(Route(None, (DROPPED,), NEIGHBOUR)),
    "no attempt connected, two servers": control_lost(Route(TWO, (DROPPED,), NEIGHBOUR)),
    "the best of its source's connected": control_lost(
        DEAD, OPEN, to_target=[replace(WAVERING, client=SECOND)]
    ),
    "the best of its target's connected": control_lost(
        Route(LINUX_POD, (UP, DROPPED, DROPPED)), to_target=[WAVERING, OPEN]
    ),
    "the worst of two of its source's": control_lost(
        Route(LINUX_POD, (UP, UP, DROPPED)), Route(POD, (UP, DROPPED, DROPPED))
    ),
}
LATE: dict[str, Failing] = {
    "closed": on_late_machine(not_open(POD, DROPPED), overwhelmed=True),
    "closed, machine was not overwhelmed": on_late_machine(not_open(POD, DROPPED)),
    "closed, given no more time": not_open(POD, DROPPED, overwhelmed=True),
    "open": on_late_machine(not_closed(POD, UP), overwhelmed=True),
    "open, machine was not overwhelmed": on_late_machine(not_closed(POD, UP)),
    "open after a denial": on_late_machine(
        not_closed(POD, DROPPED, UP, standing=LEAK), overwhelmed=True
    ),
    "no denial": on_late_machine(
        not_closed(POD, UNREACHABLE, standing=NO_DENIAL), overwhelmed=True
    ),
    "undecided": on_late_machine(not_closed(POD, REFUSED, standing=UNDECIDED), overwhelmed=True),
    "wavers": on_late_machine(
        replace(not_open(POD, UP, DROPPED), standing=WAVERS), overwhelmed=True
    ),
}
NAMES: dict[str, Failing] = {
    "no answer, DNS answers": Unresolved(no_answer),
    "no answer, DNS answers, pods not known": Unresolved(no_answer, pods=()),
    "no answer, one DNS pod silent": Unresolved(no_answer, pods=(0.003, None)),
    "no answer, one DNS pod silent, DNS late": Unresolved(no_answer, 3.1, (0.003, None)),
    "no answer, one DNS pod silent, DNS too": Unresolved(no_answer, None, (0.003, None)),
    "no answer, DNS late": Unresolved(no_answer, 3.1),
    "no answer, DNS later than a client waits": Unresolved(no_answer, 7.0, (7.0, 7.0)),
    "no answer, DNS later than the suite waits": Unresolved(no_answer, 16.0, (16.0, 16.0)),
    "no answer, DNS late, pods not known": Unresolved(no_answer, 3.1, ()),
    "no answer, DNS late, all pods silent": Unresolved(no_answer, 3.1, (None, None)),
    "no answer, all DNS pods silent": Unresolved(no_answer, 0.003, (None, None)),
    "no answer, DNS and all its pods silent": Unresolved(no_answer, None, (None, None)),
    "no answer, DNS silent": Unresolved(no_answer, None),
    "no answer, DNS silent, pods not known": Unresolved(no_answer, None, ()),
    "no answer, nothing known of DNS": Unresolved(no_answer, is_known=False),
    "an answer at times, DNS answers": Unresolved(by_turns(no_answer, right_address)),
    "an answer at times, DNS answers, pods not known": Unresolved(
        by_turns(no_answer, right_address), pods=()
    ),
    "wrong address": Unresolved(wrong_address),
    "NXDOMAIN": Unresolved(no_record("NXDOMAIN")),
    "NOERROR": Unresolved(no_record("NOERROR")),
    "NXDOMAIN and a wrong address by turns": Unresolved(
        by_turns(no_record("NXDOMAIN"), wrong_address)
    ),
    "a wrong address and NXDOMAIN by turns": Unresolved(
        by_turns(wrong_address, no_record("NXDOMAIN"))
    ),
    "NXDOMAIN at first, then a wrong address": Unresolved(
        at_first(no_record("NXDOMAIN"), wrong_address)
    ),
    "a wrong address at first, then NXDOMAIN": Unresolved(
        at_first(wrong_address, no_record("NXDOMAIN"))
    ),
    "a wrong address and the right one by turns": Unresolved(
        by_turns(wrong_address, right_address)
    ),
    "no answer, foreign policy closes UDP": Unresolved(no_answer, others=Owner("closed", "UDP")),
    "no answer, foreign policy closes TCP": Unresolved(no_answer, others=CLOSES),
    "no answer, the client's pod restarted": Unresolved(no_answer, is_restarted=True),
    "late, DNS answers": Unresolved(late_address),
    "late, DNS late": Unresolved(late_address, 3.1),
    "late, nothing known of DNS": Unresolved(late_address, is_known=False),
    "no answer, DNS answers NO_SUCH_NAME": Unresolved(no_answer, NO_NAME),
    "no answer, DNS silent, one pod answers NO_SUCH_NAME": Unresolved(
        no_answer, None, (None, NO_NAME)
    ),
    "no answer, one server asked": Unresolved(no_answer, at=(dns.FIRST.udp(53),)),
    "no answer, one server asked, another DNS pod silent": Unresolved(
        no_answer, pods=(0.003, None), at=(dns.FIRST.udp(53),)
    ),
    "no answer, one server asked, which is silent": Unresolved(
        no_answer, pods=(None, 0.003), at=(dns.FIRST.udp(53),)
    ),
    "no A wanted, an address": Unresolved(wrong_address, to=()),
    "no A wanted, NXDOMAIN late": Unresolved(no_record("NXDOMAIN", 3.1), to=(), is_known=False),
    "AAAA wanted, NXDOMAIN": Unresolved(no_record("NXDOMAIN"), record="AAAA"),
    "no AAAA wanted, NXDOMAIN": Unresolved(no_record("NXDOMAIN"), to=(), record="AAAA"),
    "no AAAA wanted, NOERROR late": Unresolved(
        no_record("NOERROR", 3.1), to=(), record="AAAA", is_known=False
    ),
    "no AAAA wanted, an address": Unresolved(wrong_address, to=(), record="AAAA"),
    "no AAAA wanted, no answer": Unresolved(no_answer, to=(), record="AAAA", is_known=False),
}
OTHERS: dict[str, Failing] = {
    "foreign policy closes, nothing observed": not_open(POD, others=CLOSES),
    **{f"foreign policy closes, {end}": not_open(POD, end, others=CLOSES) for end in ENDS},
    "foreign policy closes, RESET, then TIMED_OUT": not_open(POD, RESET, DROPPED, others=CLOSES),
    "foreign policy closes, TIMED_OUT, then RESET": not_open(POD, DROPPED, RESET, others=CLOSES),
    "foreign policy closes, path wavers": replace(
        not_open(POD, UP, DROPPED, others=CLOSES), standing=WAVERS
    ),
    "foreign policy closes, CONNECTED": not_closed(POD, UP, others=CLOSES),
    "foreign policy closes UDP, TIMED_OUT": not_open(POD, DROPPED, others=Owner("closed", "UDP")),
    "foreign policy closes UDP, TIMED_OUT by UDP": not_open(
        UDP, DROPPED, others=Owner("closed", "UDP")
    ),
    "foreign policy closes UDP, TIMED_OUT by name": not_open(
        NAME, DROPPED, others=Owner("closed", "UDP")
    ),
    "foreign policy closes UDP, DNS_FAILED": not_open(
        NAME, DNS_FAILED, others=Owner("closed", "UDP")
    ),
    "foreign policy closes UDP, DNS_FAILED, then TIMED_OUT": not_open(
        NAME, DNS_FAILED, DROPPED, others=Owner("closed", "UDP")
    ),
    "foreign policy opens, CONNECTED": not_closed(POD, UP, others=OPENS),
    "foreign policy opens, nothing observed": not_closed(POD, others=OPENS),
    "foreign policy opens, CONNECTED after a denial": not_closed(
        POD, DROPPED, UP, standing=LEAK, others=OPENS
    ),
    "foreign policy opens, REFUSED": not_closed(POD, REFUSED, others=OPENS),
    "foreign policy opens, no denial": not_closed(
        POD, UNREACHABLE, standing=NO_DENIAL, others=OPENS
    ),
    "foreign policy opens, undecided": not_closed(POD, REFUSED, standing=UNDECIDED, others=OPENS),
    "foreign policy opens, TIMED_OUT": not_open(POD, DROPPED, others=OPENS),
    "another run, nothing observed": not_open(POD, runs=OTHER_RUN),
    **{f"another run, {end}": not_open(POD, end, runs=OTHER_RUN) for end in ENDS},
    "another run, TIMED_OUT, then UNREACHABLE": not_open(POD, DROPPED, UNREACHABLE, runs=OTHER_RUN),
    "another run, UNREACHABLE, then TIMED_OUT": not_open(POD, UNREACHABLE, DROPPED, runs=OTHER_RUN),
    "another run, UNREACHABLE, TIMED_OUT, UNREACHABLE": not_open(
        POD, UNREACHABLE, DROPPED, UNREACHABLE, runs=OTHER_RUN
    ),
    "another run, another pod answered": not_open(POD, ANOTHER, DROPPED, runs=OTHER_RUN),
    "another run, REFUSED in place of a denial": not_closed(POD, REFUSED, runs=OTHER_RUN),
    "another run, CONNECTED": not_closed(POD, UP, runs=OTHER_RUN),
    "another run, foreign policy closes, TIMED_OUT": not_open(
        POD, DROPPED, others=CLOSES, runs=OTHER_RUN
    ),
    "first action of a new pod": first_action(SERVER),
    "first action of a new pod, foreign policy opens": first_action(SERVER, others=OPENS),
    "first action of a new pod, foreign policy closes": first_action(SERVER, others=CLOSES),
    "nothing restarted": reachable(POD, DROPPED),
    "the client's pod restarted": reachable(POD, DROPPED, restarted=[CLIENT.pod]),
    "the server's pod restarted": reachable(POD, DROPPED, restarted=[SERVER.pod]),
}
FELIX: dict[str, Failing] = {
    "runs": WithFelix(reachable(POD, DROPPED), ()),
    "does not run on the server's node": WithFelix(reachable(POD, DROPPED), ("windows-2",)),
    "does not run on the client's node": WithFelix(reachable(POD, DROPPED), ("linux-1",)),
    "does not run, path not closed": WithFelix(not_closed(POD, UP), ("windows-2",)),
    "does not run, message without lines": WithFelix(first_action(SERVER), ("windows-2",)),
}
STREAMS: dict[str, Failing] = {
    "Linux to Windows": StreamLost(CLIENT, SERVER),
    "Linux to Linux": StreamLost(CLIENT, LINUX_SERVER),
    "Windows to Linux": StreamLost(WINDOWS_CLIENT, LINUX_SERVER),
    "Windows to Windows": StreamLost(WINDOWS_CLIENT, SERVER),
    "within a Windows node": StreamLost(SERVER, THIRD),
    "too late, overwhelmed": StreamLost(CLIENT, SERVER, True, 4.0, True),
    "too late, not overwhelmed": StreamLost(CLIENT, SERVER, True, 4.0),
    "too late, given no more time": StreamLost(CLIENT, SERVER, True, overwhelmed=True),
    "not too late, overwhelmed": StreamLost(CLIENT, SERVER, given=4.0, overwhelmed=True),
    "foreign policy closes": StreamLost(CLIENT, SERVER, others=CLOSES),
    "foreign policy opens": StreamLost(CLIENT, SERVER, others=OPENS),
    "another run": StreamLost(CLIENT, SERVER, runs=OTHER_RUN),
    "another run, foreign policy closes": StreamLost(CLIENT, SERVER, others=CLOSES, runs=OTHER_RUN),
    "another run, nothing lost": StreamLost(
        CLIENT, SERVER, runs=OTHER_RUN, ends=(StreamVerdict.SURVIVED, StreamVerdict.SURVIVED)
    ),
}
NEW_PODS: dict[str, Failing] = {
    "answers, Windows": new_pod(SERVER),
    "answers, Linux": new_pod(LINUX_SERVER),
    "UNREACHABLE": new_pod(SERVER, UNREACHABLE),
    "answers, and the client is dead": new_pod(SERVER, beside=DROPPED),
    "silent, and the client is dead": new_pod(SERVER, DROPPED, beside=DROPPED),
    "silent, and its first action never ends": new_pod(SERVER, DROPPED, stage="acting"),
    "UNREACHABLE, and its first action never ends": new_pod(SERVER, UNREACHABLE, stage="acting"),
    "silent, the client is dead, and its first action never ends": new_pod(
        SERVER, DROPPED, beside=DROPPED, stage="acting"
    ),
    "sends, Windows": first_action(WINDOWS_CLIENT),
    "sends, Linux": first_action(CLIENT),
    "never Ready, Windows": never_ready(SERVER),
    "never Ready, Linux": never_ready(LINUX_SERVER),
}
SIZES: dict[str, Failing] = {
    "large datagram": lost_by_size(UDP, 12000),
    "large datagram, and small ones": lost_by_size(UDP, 12000, 576),
    "datagram of one packet": lost_by_size(UDP, *range(600, 700)),
    "transfer": lost_by_size(POD, 1_200_000),
    "transfer, and small ones": lost_by_size(POD, 1_200_000, 576),
}
PAGES: dict[str, Failing] = {
    "of a pod": page(POD),
    "of two pods": page(TWO),
    "of a server outside": page(OUTSIDE),
}
ANSWERS: dict[str, Failing] = {
    "lost by the Service": answered_whole(by_service=DROPPED, own=UP),
    "lost by the server's own address too": answered_whole(by_service=DROPPED, own=DROPPED),
}
LACKING = Nodes({("linux-1", "windows-2"): "no route"})
OVERLAY: dict[str, Failing] = {
    "VXLAN, nodes lack nothing": overlay(),
    "addresses alone, nodes lack nothing": overlay(by=ADDRESSES_ONLY),
    "VXLAN, no route": overlay(LACKING),
    "addresses alone, no route": overlay(LACKING, ADDRESSES_ONLY),
    "VXLAN, nodes not read": overlay(Nodes(broken=True)),
    "VXLAN, nothing connects inside a node": overlay(inside=DROPPED),
    "VXLAN, node not reached": overlay(node=DROPPED),
}
GROUPS = {
    "to be open": NOTHING_NEARER,
    "kube-proxy": KUBE_PROXY,
    "to be open, TIMED_OUT": NEAREST,
    "policies removed": REMOVED,
    "to be closed": NOT_CLOSED,
    "control lost": CONTROLS,
    "machine late": LATE,
    "name": NAMES,
    "others": OTHERS,
    "Felix": FELIX,
    "stream lost": STREAMS,
    "new pod": NEW_PODS,
    "size": SIZES,
    "page": PAGES,
    "long answer": ANSWERS,
    "between nodes": OVERLAY,
}
FAMILIES = {
    f"{group}: {family}": failing
    for group, families in GROUPS.items()
    for family, failing in families.items()
}


def advice_of(family: str) -> str:
    """Return the advice that the failure of a family ends with, line by line."""
    error = FAMILIES[family].error()
    found = DO.findall(str(error))
    if not found:
        raise ValueError(f"{family}: no advice in {error!r}")
    return "\n    ".join(found)


def written() -> dict[str, str]:
    """Map each family to its golden advice."""
    entries = TEXTS.read_text(encoding="utf-8").split("\n\n")
    return {
        family: advice for family, _, advice in (one.strip().partition("\n    ") for one in entries)
    }


if __name__ == "__main__":
    TEXTS.write_text(
        "\n".join(f"{family}\n    {advice_of(family)}\n" for family in FAMILIES), encoding="utf-8"
    )
