"""Every fault that a lab has on any plane; those of one plane are in that plane's folder of ``networks``."""

from __future__ import annotations

from hybridlab.faults import api, exec, kubelet
from hybridlab.faults.backends import ServicesWrong
from hybridlab.faults.denials import DenialWearsOff, first_syns_denied
from hybridlab.faults.dns_pods import DnsPodSilent
from hybridlab.faults.felix import PolicyLate, PolicyMisread, ReservedNotReserved
from hybridlab.faults.felix_crash_loop import FelixCrashLoops
from hybridlab.faults.flows import flows_dropped
from hybridlab.faults.hairpin import hairpin_dropped
from hybridlab.faults.hns import HnsFails, services_lost_with_network
from hybridlab.faults.model import FaultType, Parameter
from hybridlab.faults.path_slow import PathSlow
from hybridlab.faults.ping import ping_dropped, ping_natted
from hybridlab.faults.pods import PodRestarts
from hybridlab.faults.reprogramming import (
    NoResetRecovery,
    OpenBeforePolicy,
    PolicyHitsNode,
    acl_always_replaced,
    acl_not_replaced,
    felix_keeps_old_rules,
    felix_never_restarts,
    rst_storm_linux,
)
from hybridlab.faults.rules import (
    REFUSALS,
    ServiceBackendMissing,
    dns_silent,
    pods_swapped,
    policy_not_enforced,
    policy_refuses,
    snat_pod_to_pod,
)
from hybridlab.faults.search_list import SEARCH_LISTS, SearchListWrong
from hybridlab.faults.service_source import dsr_despite_build, snat_despite_dsr, wrong_snat_address
from hybridlab.faults.zone import DnsSlow, DnsStale, DnsWrong
from hybridlab.faults.zone_gate import ANOTHER, ANSWERS
from hybridlab.policy.misreadings import MISREADINGS

_NODE = Parameter(name="node", meaning="name of a node")
_WINDOWS_OR_ALL = Parameter(name="node", meaning="name of a Windows node, or all", default="all")
_NODE_OR_ALL = Parameter(name="node", meaning="name of a node, or all", default="all")
_WINDOWS = Parameter(name="node", meaning="name of a Windows node")
_PROTOCOL = Parameter(name="protocol", meaning="all, tcp or udp", default="all", choices=("all", "tcp", "udp"))
_LINUX_OR_ALL = Parameter(name="node", meaning="name of a Linux node, or all", default="all")

TYPES = (
    FaultType(
        name="flows-dropped",
        layer="underlay",
        scope="node",
        description="of the TCP and UDP flows that leave or enter a node one in so many is lost, with all its packets",
        parameters=(_NODE, Parameter(name="every", meaning="which share is lost: one flow in so many", default="5")),
        make=flows_dropped,
    ),
    FaultType(
        name="path-slow",
        layer="underlay",
        scope="node",
        description="what a node sends to other nodes, and hears from them, comes late and complete",
        parameters=(_NODE, Parameter(name="ms", meaning="added to each round trip, milliseconds", default="300")),
        make=PathSlow,
    ),
    FaultType(
        name="policy-not-enforced",
        layer="policy",
        scope="node",
        description="a node lets everything, or everything of one protocol, past policy",
        parameters=(
            _NODE,
            _PROTOCOL,
        ),
        make=policy_not_enforced,
    ),
    FaultType(
        name="policy-refuses",
        layer="policy",
        scope="all, node",
        description="what policy denies is refused (TCP reset or ICMP) instead of vanishing",
        parameters=(
            _NODE_OR_ALL,
            Parameter(name="with", meaning="rst (TCP only) or icmp", default="rst", choices=tuple(REFUSALS)),
        ),
        make=policy_refuses,
    ),
    FaultType(
        name="denial-wears-off",
        layer="policy",
        scope="all, node",
        description="what policy denies is let through some time after Felix programmed a pod of the node last",
        parameters=(_NODE_OR_ALL, Parameter(name="seconds", meaning="how long denials last")),
        make=DenialWearsOff,
    ),
    FaultType(
        name="first-syns-denied",
        layer="policy",
        scope="all, node",
        description="of the TCP that policy denies first SYNs alone vanish: one that is sent again is let through",
        parameters=(_NODE_OR_ALL,),
        make=first_syns_denied,
    ),
    FaultType(
        name="policy-misread",
        layer="policy",
        scope="all, node",
        description="Felix misreads one thing in every policy of its node",
        parameters=(
            _NODE_OR_ALL,
            Parameter(name="as", meaning=f"{', '.join(MISREADINGS[:-1])} or {MISREADINGS[-1]}", choices=MISREADINGS),
        ),
        make=PolicyMisread,
    ),
    FaultType(
        name="policy-hits-node",
        layer="policy",
        scope="all, node",
        description="what a node sends to its own pods, the kubelet's probes among it, is under their policy",
        parameters=(_NODE_OR_ALL,),
        make=PolicyHitsNode,
    ),
    FaultType(
        name="policy-late",
        layer="policy",
        scope="all, node",
        description="policy changes take effect later",
        parameters=(_NODE_OR_ALL, Parameter(name="seconds", meaning="how much later")),
        make=PolicyLate,
    ),
    FaultType(
        name="no-reset-recovery",
        layer="policy",
        scope="all, Windows node",
        description="a Windows pod whose policy was reprogrammed has no new TCP connections any more",
        parameters=(_WINDOWS_OR_ALL, Parameter(name="seconds", meaning="for how long; 0: for good", default="0")),
        make=NoResetRecovery,
    ),
    FaultType(
        name="rst-storm-linux",
        layer="policy",
        scope="all, Linux node",
        description="programming a Linux pod's policy again resets its established connections",
        parameters=(_LINUX_OR_ALL,),
        make=rst_storm_linux,
    ),
    FaultType(
        name="acl-not-replaced",
        layer="policy",
        scope="all, Windows node",
        description="Windows pods that were programmed once keep their ACL list, whatever policy says",
        parameters=(_WINDOWS_OR_ALL,),
        make=acl_not_replaced,
    ),
    FaultType(
        name="acl-always-replaced",
        layer="policy",
        scope="all, Windows node",
        description="Windows pods get their ACL list anew with every update, a label's change included",
        parameters=(_WINDOWS_OR_ALL,),
        make=acl_always_replaced,
    ),
    FaultType(
        name="felix-never-restarts",
        layer="policy",
        scope="all, Windows node",
        description="a calico-node-windows pod that was killed comes back without its Felix",
        parameters=(_WINDOWS_OR_ALL,),
        make=felix_never_restarts,
    ),
    FaultType(
        name="felix-crash-loops",
        layer="policy",
        scope="all, node",
        description="Felix ends as soon as it starts, again and again, and programs nothing",
        parameters=(_NODE_OR_ALL,),
        make=FelixCrashLoops,
    ),
    FaultType(
        name="felix-keeps-old-rules",
        layer="policy",
        scope="all, node",
        description="a Felix that starts again leaves programmed pods as they are, whatever changed while it was down",
        parameters=(_NODE_OR_ALL,),
        make=felix_keeps_old_rules,
    ),
    FaultType(
        name="open-before-policy",
        layer="policy",
        scope="all, node",
        description="new pods take any traffic until they are programmed, which is done late",
        parameters=(_NODE_OR_ALL, Parameter(name="seconds", meaning="how much later")),
        make=OpenBeforePolicy,
    ),
    FaultType(
        name="dns-wrong",
        layer="dns",
        scope="all",
        description="names resolve to 203.0.113.9, where nothing is, alone or beside what is right; or deny their AAAA",
        parameters=(
            Parameter(name="name", meaning="only this full name (default: every name)", default=""),
            Parameter(name="answer", meaning=" or ".join(ANSWERS), default=ANOTHER, choices=ANSWERS),
        ),
        make=lambda lab, identity, parameters: DnsWrong(lab.zone_gate, identity, parameters),
    ),
    FaultType(
        name="dns-silent",
        layer="dns",
        scope="all, node",
        description="questions to the cluster's DNS get no answer",
        parameters=(
            _NODE_OR_ALL,
            Parameter(name="over", meaning="all, udp or tcp", default="all", choices=("all", "udp", "tcp")),
        ),
        make=dns_silent,
    ),
    FaultType(
        name="dns-stale",
        layer="dns",
        scope="all",
        description="names keep the addresses that they were answered with first",
        make=lambda lab, identity, parameters: DnsStale(lab.zone_gate, identity),
    ),
    FaultType(
        name="dns-slow",
        layer="dns",
        scope="all, node",
        description="the cluster's DNS answers the questions of a node's pods late",
        parameters=(_NODE_OR_ALL, Parameter(name="seconds", meaning="how much later")),
        make=DnsSlow,
    ),
    FaultType(
        name="dns-pod-silent",
        layer="dns",
        scope="all, node",
        description="one of the DNS pods does not answer, though it is Ready",
        parameters=(
            _NODE_OR_ALL,
            Parameter(name="pod", meaning="its number among the DNS pods, by name, from 1", default="1"),
        ),
        make=DnsPodSilent,
    ),
    FaultType(
        name="search-list-wrong",
        layer="dns",
        scope="all, node",
        description="new pods search other domains for short names than those of their namespace and the cluster",
        parameters=(
            _NODE_OR_ALL,
            Parameter(
                name="list", meaning=f"{', '.join(SEARCH_LISTS[:-1])} or {SEARCH_LISTS[-1]}", choices=SEARCH_LISTS
            ),
        ),
        make=SearchListWrong,
    ),
    FaultType(
        name="backends-stale",
        layer="services",
        scope="all, node",
        description="kube-proxy keeps the backends that each Service had first",
        parameters=(_NODE_OR_ALL,),
        make=lambda lab, identity, parameters: ServicesWrong(lab, identity, parameters, "stale"),
    ),
    FaultType(
        name="one-backend",
        layer="services",
        scope="all, node",
        description="kube-proxy uses the first backend of each Service alone",
        parameters=(_NODE_OR_ALL,),
        make=lambda lab, identity, parameters: ServicesWrong(lab, identity, parameters, "first"),
    ),
    FaultType(
        name="backends-of-another",
        layer="services",
        scope="all, node",
        description="kube-proxy uses the backends of another Service that serve the same port",
        parameters=(_NODE_OR_ALL,),
        make=lambda lab, identity, parameters: ServicesWrong(lab, identity, parameters, "others"),
    ),
    FaultType(
        name="node-ports-missing",
        layer="services",
        scope="all, node",
        description="a node's kube-proxy has no NodePorts: connections to them are refused there",
        parameters=(_NODE_OR_ALL,),
        make=lambda lab, identity, parameters: ServicesWrong(lab, identity, parameters, "no-node-ports"),
    ),
    FaultType(
        name="udp-node-ports-missing",
        layer="services",
        scope="all, node",
        description="a node's kube-proxy has NodePorts for TCP alone: datagrams to others are refused there",
        parameters=(_NODE_OR_ALL,),
        make=lambda lab, identity, parameters: ServicesWrong(lab, identity, parameters, "no-udp-node-ports"),
    ),
    FaultType(
        name="target-port-ignored",
        layer="services",
        scope="all, node",
        description="kube-proxy asks the backends of Services at the Service's own port",
        parameters=(_NODE_OR_ALL,),
        make=lambda lab, identity, parameters: ServicesWrong(lab, identity, parameters, "own-port"),
    ),
    FaultType(
        name="unready-backends-used",
        layer="services",
        scope="all, node",
        description="kube-proxy uses the backends of Services that are not ready as well",
        parameters=(_NODE_OR_ALL,),
        make=lambda lab, identity, parameters: ServicesWrong(lab, identity, parameters, "unready"),
    ),
    FaultType(
        name="hairpin-dropped",
        layer="services",
        scope="all, node",
        description="what a pod sends to itself by way of a Service is lost",
        parameters=(_NODE_OR_ALL,),
        make=hairpin_dropped,
    ),
    FaultType(
        name="pods-swapped",
        layer="underlay",
        scope="node",
        description="of a node's pods the one with the neighbouring address answers in another's place, on one port",
        parameters=(_NODE, Parameter(name="port", meaning="TCP and UDP port", default="8080")),
        make=pods_swapped,
    ),
    FaultType(
        name="service-backend-missing",
        layer="services",
        scope="node",
        description="a node knows no backend of a Service: its ClusterIP and node ports do not answer there",
        parameters=(Parameter(name="service", meaning="NAMESPACE/NAME"), _NODE),
        make=ServiceBackendMissing,
    ),
    FaultType(
        name="snat-pod-to-pod",
        layer="services",
        scope="node",
        description="a node rewrites the source of its pods on their way to other pods, of all or of one protocol",
        parameters=(_NODE, _PROTOCOL),
        make=snat_pod_to_pod,
    ),
    FaultType(
        name="snat-despite-dsr",
        layer="services",
        scope="all, Windows node",
        description="Windows nodes rewrite their pods' source by ClusterIP as without direct server return",
        parameters=(_WINDOWS_OR_ALL,),
        make=snat_despite_dsr,
    ),
    FaultType(
        name="wrong-snat-address",
        layer="services",
        scope="all, Windows node",
        description="Windows nodes rewrite their pods' source by ClusterIP to the node's address",
        parameters=(_WINDOWS_OR_ALL,),
        make=wrong_snat_address,
    ),
    FaultType(
        name="dsr-despite-build",
        layer="services",
        scope="all, Windows node",
        description="Windows nodes keep their pods' source by ClusterIP, whatever their build and kube-proxy can do",
        parameters=(_WINDOWS_OR_ALL,),
        make=dsr_despite_build,
    ),
    FaultType(
        name="ping-natted",
        layer="underlay",
        scope="all, Windows node",
        description="Windows nodes source-NAT their pods' ping beyond the cluster, so that it is answered",
        parameters=(_WINDOWS_OR_ALL,),
        make=ping_natted,
    ),
    FaultType(
        name="ping-dropped",
        layer="underlay",
        scope="all, node",
        description="nodes drop their pods' ping, inside the cluster too",
        parameters=(Parameter(name="node", meaning="name of a node, or all Windows nodes", default="all"),),
        make=ping_dropped,
    ),
    FaultType(
        name="reserved-not-reserved",
        layer="ipam",
        scope="Windows node",
        description="a Windows node's block does not reserve its four addresses: the next pod gets .2",
        parameters=(_WINDOWS,),
        make=ReservedNotReserved,
    ),
    FaultType(
        name="services-lost-with-network",
        layer="hns",
        scope="all, Windows node",
        description="Services of a Windows node stay dead once its HNS network is removed, until its kube-proxy's pod "
        "is made anew",
        parameters=(_WINDOWS_OR_ALL,),
        make=services_lost_with_network,
    ),
    FaultType(
        name="hns-fails",
        layer="hns",
        scope="all, Windows node",
        description="HNS cannot be asked: its cmdlets print an error and null, or an empty text, and exit with 0",
        parameters=(
            _WINDOWS_OR_ALL,
            Parameter(name="answer", meaning="error, silent or garbled", default="error"),
        ),
        make=HnsFails,
    ),
    *exec.TYPES,
    FaultType(
        name="api-429",
        layer="api",
        scope="all, namespace",
        description="the API server answers 429 Too Many Requests for a while",
        parameters=api.PARAMETERS,
        make=api.api_429,
    ),
    FaultType(
        name="api-500",
        layer="api",
        scope="all, namespace",
        description="the API server answers 500 Internal Server Error for a while",
        parameters=api.PARAMETERS,
        make=api.api_500,
    ),
    FaultType(
        name="api-unreachable",
        layer="api",
        scope="all",
        description="every connection to the API server is cut for a while, execs and watches too",
        parameters=(Parameter(name="seconds", meaning="for how long"),),
        make=api.ApiUnreachable,
    ),
    FaultType(
        name="watch-silent",
        layer="api",
        scope="all, namespace",
        description="watches deliver nothing any more and stay open, as behind a gateway that forgot them",
        parameters=(
            Parameter(name="namespace", meaning="only watches of objects in this namespace", default=""),
            Parameter(name="first", meaning="only so many watches (0: all)", default="0"),
        ),
        make=api.WatchesSilent,
    ),
    FaultType(
        name="kubelet-idle",
        layer="pods",
        scope="all, node",
        description="a Ready node's kubelet takes no note of pods that are new there",
        parameters=(_NODE_OR_ALL,),
        make=kubelet.kubelet_idle,
    ),
    FaultType(
        name="node-dead",
        layer="pods",
        scope="node",
        description="a node is switched off: kubelet and lease stop, nothing leaves it, it is Ready Unknown",
        parameters=(
            _NODE,
            Parameter(name="after", meaning="only so many seconds after the next pod has started there", default=""),
        ),
        make=kubelet.NodeDead,
    ),
    FaultType(
        name="image-pull-stalls",
        layer="pods",
        scope="all, node",
        description="pulls of images that a node does not have begin and do not end",
        parameters=(_NODE_OR_ALL,),
        make=kubelet.image_pull_stalls,
    ),
    FaultType(
        name="kubelet-probes-fail",
        layer="pods",
        scope="all, node",
        description="what a kubelet sends to its pods' addresses to probe them gets no answer",
        parameters=(_NODE_OR_ALL,),
        make=kubelet.kubelet_probes_fail,
    ),
    FaultType(
        name="pod-restarts",
        layer="pods",
        scope="pod",
        description="a container's main process is killed once, and its kubelet starts it again",
        parameters=(
            Parameter(name="pod", meaning="NAMESPACE/NAME"),
            Parameter(name="container", meaning="name of a container (default: the first)", default=""),
        ),
        make=PodRestarts,
    ),
)
"""What can be injected everywhere."""
