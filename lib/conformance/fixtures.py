"""The types of what suites ask for by name, for their annotations: ``def test_x(pods: WorkerPods, expect: Expect)``.

The fixtures themselves are in ``conformance.plugin.fixtures``.
"""

from collections.abc import Callable

from conformance.disrupt.ending_policy import EndingPolicy
from conformance.disrupt.felix import Felix
from conformance.disrupt.kube_proxy import KubeProxy
from conformance.disrupt.own_node_status import OwnNodeStatus
from conformance.disrupt.own_pool import OwnPool
from conformance.disrupt.vni_change import VniChange
from conformance.expect.addresses import Addresses
from conformance.expect.backends import Backends
from conformance.expect.beyond import Beyond
from conformance.expect.builds import Builds
from conformance.expect.commands import Commands
from conformance.expect.connections_during_change import ConnectionsDuringChange
from conformance.expect.felix_runs import FelixRuns
from conformance.expect.fragments import Fragments
from conformance.expect.host_subnet import HostSubnet
from conformance.expect.known_issue import KnownIssue
from conformance.expect.limits import Limits
from conformance.expect.node_ports import NodePorts
from conformance.expect.overlay import Fabric, FlannelFabric, Overlay
from conformance.expect.own_node import OwnNode
from conformance.expect.own_service import OwnService
from conformance.expect.pages import Pages
from conformance.expect.pod_startup import PodStartup
from conformance.expect.probe_protocol import ProbeProtocol
from conformance.expect.readings import Readings
from conformance.expect.service_source import ServiceSource
from conformance.expect.sizes import Sizes
from conformance.expect.standing_watch import StandingWatch
from conformance.expect.throughout import Throughout
from conformance.expect.traffic import Expect
from conformance.expect.underlay import Subnets, Underlay
from conformance.expect.windows_nodes import WindowsNodes
from conformance.expect.witnesses import AclLists
from conformance.facts.bgp import BgpFacts
from conformance.facts.cluster_wide import ClusterWide
from conformance.facts.cni_token import CniTokens
from conformance.facts.ipam import IpamFacts
from conformance.facts.linux_routes import LinuxRoutes
from conformance.facts.not_on_windows import NotOnWindows
from conformance.facts.objects import CalicoObjects
from conformance.facts.operator import OperatorFacts
from conformance.facts.platform_objects import PlatformObjects
from conformance.facts.remedies import Remedies
from conformance.facts.supported import Supported
from conformance.facts.vxlan import VxlanFacts
from conformance.model.endpoint import OS
from conformance.pods.cluster_dns import ClusterDns
from conformance.pods.groups import PodPairs
from conformance.pods.new_pod import NewPods
from conformance.pods.newcomers import Newcomers
from conformance.pods.passing_services import PassingServices
from conformance.pods.pool_clients import PoolClients
from conformance.pods.relabel import Relabel
from conformance.pods.reset_topology import ResetTopology
from conformance.pods.services import Services
from conformance.pods.sides import Sides
from conformance.pods.temporary_namespace import TemporaryNamespace
from conformance.pods.unready import UnreadyServers
from conformance.pods.webserver import WebServer
from conformance.pods.worker_pods import Place, WorkerPods
from conformance.run.in_world import InWorld
from conformance.run.policies import Policy

SourceOf = Callable[[PodPairs], ServiceSource]
"""``source(pod_pairs)``: expectations about the source of clients' paths through Services."""

__all__ = [
    "OS",
    "AclLists",
    "Addresses",
    "Backends",
    "Beyond",
    "BgpFacts",
    "Builds",
    "CalicoObjects",
    "ClusterDns",
    "ClusterWide",
    "CniTokens",
    "Commands",
    "ConnectionsDuringChange",
    "EndingPolicy",
    "Expect",
    "Fabric",
    "Felix",
    "FelixRuns",
    "FlannelFabric",
    "Fragments",
    "HostSubnet",
    "InWorld",
    "IpamFacts",
    "KnownIssue",
    "KubeProxy",
    "Limits",
    "LinuxRoutes",
    "NewPods",
    "Newcomers",
    "NodePorts",
    "NotOnWindows",
    "OperatorFacts",
    "Overlay",
    "OwnNode",
    "OwnNodeStatus",
    "OwnPool",
    "OwnService",
    "Pages",
    "PassingServices",
    "Place",
    "PlatformObjects",
    "PodStartup",
    "Policy",
    "PoolClients",
    "ProbeProtocol",
    "Readings",
    "Relabel",
    "Remedies",
    "ResetTopology",
    "Services",
    "Sides",
    "Sizes",
    "SourceOf",
    "StandingWatch",
    "Subnets",
    "Supported",
    "TemporaryNamespace",
    "Throughout",
    "Underlay",
    "UnreadyServers",
    "VniChange",
    "VxlanFacts",
    "WebServer",
    "WindowsNodes",
    "WorkerPods",
]
