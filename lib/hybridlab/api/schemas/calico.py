# SPDX-License-Identifier: Apache-2.0
"""The fields of Calico's own kinds (projectcalico.org/v3), in the notation of ``kubernetes.json``.

Fields are checked only in the kinds whose fields users often get wrong; kinds of the operator may
have any fields. Fields follow the reference pages of Calico v3.31
(docs.tigera.io/calico/latest/reference/resources).
"""

from collections.abc import Mapping
from typing import Any, Final


def _type(fields: str, required: str = "") -> dict[str, Any]:
    entry: dict[str, Any] = {"f": dict(item.split(":", 1) for item in fields.split())}
    if required:
        entry["r"] = required.split()
    return entry


def _root(spec: str, status: str = "") -> dict[str, Any]:
    return _type(
        f"apiVersion:s kind:s metadata:.V1ObjectMeta spec:{spec}"
        + (f" status:{status}" if status else "")
    )


_POLICY = (
    "tier:s order:n ingress:[.V3Rule egress:[.V3Rule selector:s types:[s "
    "serviceAccountSelector:s performanceHints:[s "
)
_GLOBAL_POLICY = _POLICY + "namespaceSelector:s doNotTrack:b preDNAT:b applyOnForward:b "

CALICO_TYPES: Final[Mapping[str, Mapping[str, Any]]] = {
    "V3NetworkPolicy": _root(".V3NetworkPolicySpec"),
    "V3NetworkPolicySpec": _type(_POLICY),
    "V3GlobalNetworkPolicy": _root(".V3GlobalNetworkPolicySpec"),
    "V3GlobalNetworkPolicySpec": _type(_GLOBAL_POLICY),
    "V3StagedNetworkPolicy": _root(".V3StagedNetworkPolicySpec"),
    "V3StagedNetworkPolicySpec": _type(_POLICY + "stagedAction:s"),
    "V3StagedGlobalNetworkPolicy": _root(".V3StagedGlobalNetworkPolicySpec"),
    "V3StagedGlobalNetworkPolicySpec": _type(_GLOBAL_POLICY + "stagedAction:s"),
    "V3StagedKubernetesNetworkPolicy": _root(".V3StagedKubernetesNetworkPolicySpec"),
    "V3StagedKubernetesNetworkPolicySpec": _type(
        "stagedAction:s podSelector:.V1LabelSelector ingress:[.V1NetworkPolicyIngressRule "
        "egress:[.V1NetworkPolicyEgressRule policyTypes:[s"
    ),
    "V3Rule": _type(
        "action:s ipVersion:i protocol:I icmp:.V3ICMP notProtocol:I notICMP:.V3ICMP source:.V3EntityRule "
        "destination:.V3EntityRule http:.V3HTTPMatch metadata:.V3RuleMetadata",
        "action",
    ),
    "V3ICMP": _type("type:i code:i"),
    "V3HTTPMatch": _type("methods:[s paths:[.V3HTTPPath"),
    "V3HTTPPath": _type("exact:s prefix:s"),
    "V3RuleMetadata": _type("annotations:{s"),
    "V3EntityRule": _type(
        "nets:[s selector:s namespaceSelector:s services:.V3ServiceMatch ports:[I domains:[s notNets:[s "
        "notSelector:s notPorts:[I serviceAccounts:.V3ServiceAccountMatch"
    ),
    "V3ServiceMatch": _type("name:s namespace:s"),
    "V3ServiceAccountMatch": _type("names:[s selector:s"),
    "V3NetworkSet": _root(".V3NetworkSetSpec"),
    "V3GlobalNetworkSet": _root(".V3NetworkSetSpec"),
    "V3NetworkSetSpec": _type("nets:[s allowedEgressDomains:[s"),
    "V3Tier": _root(".V3TierSpec", "o"),
    "V3TierSpec": _type("order:n defaultAction:s"),
    "V3HostEndpoint": _root(".V3HostEndpointSpec"),
    "V3HostEndpointSpec": _type(
        "node:s interfaceName:s expectedIPs:[s profiles:[s ports:[.V3EndpointPort"
    ),
    "V3EndpointPort": _type("name:s protocol:I port:i", "name protocol port"),
    "V3IPPool": _root(".V3IPPoolSpec"),
    "V3IPPoolSpec": _type(
        "cidr:s vxlanMode:s ipipMode:s natOutgoing:b disabled:b disableBGPExport:b blockSize:i nodeSelector:s "
        "namespaceSelector:s allowedUses:[s assignmentMode:s ipip:o nat-outgoing:b",
        "cidr",
    ),
    "V3IPReservation": _root(".V3IPReservationSpec"),
    "V3IPReservationSpec": _type("reservedCIDRs:[s"),
    "V3IPAMConfiguration": _root(".V3IPAMConfigurationSpec"),
    "V3IPAMConfigurationSpec": _type(
        "strictAffinity:b autoAllocateBlocks:b maxBlocksPerHost:i kubeVirtVMAddressPersistence:s"
    ),
    "V3BlockAffinity": _root(".V3BlockAffinitySpec"),
    "V3BlockAffinitySpec": _type("state:s node:s type:s cidr:s deleted:b"),
    "V3BGPConfiguration": _root(".V3BGPConfigurationSpec"),
    "V3BGPConfigurationSpec": _type(
        "logSeverityScreen:s nodeToNodeMeshEnabled:b asNumber:I serviceLoadBalancerIPs:[.V3CIDR "
        "serviceLoadBalancerAggregation:s serviceExternalIPs:[.V3CIDR serviceClusterIPs:[.V3CIDR "
        "communities:[.V3Community prefixAdvertisements:[.V3PrefixAdvertisement listenPort:i "
        "nodeMeshPassword:o nodeMeshMaxRestartTime:s bindMode:s ignoredInterfaces:[s "
        "localWorkloadPeeringIPV4:s localWorkloadPeeringIPV6:s programClusterRoutes:s "
        "ipv4NormalRoutePriority:i ipv6NormalRoutePriority:i"
    ),
    "V3CIDR": _type("cidr:s"),
    "V3Community": _type("name:s value:s"),
    "V3PrefixAdvertisement": _type("cidr:s communities:[s"),
    "V3BGPPeer": _root(".V3BGPPeerSpec"),
    "V3BGPPeerSpec": _type(
        "node:s peerIP:s localPort:i asNumber:I nodeSelector:s peerSelector:s keepOriginalNextHop:b "
        "nextHopMode:s password:o sourceAddress:s maxRestartTime:s numAllowedLocalASNumbers:i ttlSecurity:i "
        "reachableBy:s filters:[s localWorkloadSelector:s failureDetectionMode:s restartMode:s "
        "localASNumber:I reversePeering:s"
    ),
    "V3ClusterInformation": _root(".V3ClusterInformationSpec"),
    "V3ClusterInformationSpec": _type(
        "clusterGUID:s clusterType:s calicoVersion:s datastoreReady:b variant:s cnxVersion:s"
    ),
    "V3FelixConfiguration": _root(".V3FelixConfigurationSpec"),
    "V3FelixConfigurationSpec": _type(
        "useInternalDataplaneDriver:b dataplaneDriver:s dataplaneWatchdogTimeout:s ipv6Support:b "
        "routeRefreshInterval:s interfaceRefreshInterval:s iptablesRefreshInterval:s "
        "iptablesPostWriteCheckInterval:s iptablesLockFilePath:s iptablesLockTimeout:s "
        "iptablesLockProbeInterval:s featureDetectOverride:s featureGates:s ipsetsRefreshInterval:s "
        "maxIpsetSize:i iptablesBackend:s xdpRefreshInterval:s netlinkTimeout:s metadataAddr:s metadataPort:i "
        "openstackRegion:s interfacePrefix:s interfaceExclude:s chainInsertMode:s "
        "defaultEndpointToHostAction:s iptablesFilterAllowAction:s iptablesMangleAllowAction:s "
        "iptablesFilterDenyAction:s nftablesRefreshInterval:s nftablesFilterAllowAction:s "
        "nftablesMangleAllowAction:s nftablesFilterDenyAction:s nftablesMarkMask:i nftablesMode:s logPrefix:s "
        "logFilePath:s logSeverityFile:s logSeverityScreen:s logSeveritySys:s logDebugFilenameRegex:s "
        "logActionRateLimit:s logActionRateLimitBurst:i ipipEnabled:b ipipMTU:i vxlanEnabled:b vxlanMTU:i "
        "vxlanMTUV6:i vxlanPort:i vxlanVNI:i allowVXLANPacketsFromWorkloads:b allowIPIPPacketsFromWorkloads:b "
        "reportingInterval:s reportingTTL:s endpointReportingEnabled:b endpointReportingDelay:s "
        "endpointStatusPathPrefix:s iptablesMarkMask:i disableConntrackInvalidCheck:b healthEnabled:b "
        "healthHost:s healthPort:i healthTimeoutOverrides:[o prometheusMetricsEnabled:b "
        "prometheusMetricsHost:s prometheusMetricsPort:i prometheusGoMetricsEnabled:b "
        "prometheusProcessMetricsEnabled:b prometheusWireGuardMetricsEnabled:b prometheusMetricsCAFile:s "
        "prometheusMetricsCertFile:s prometheusMetricsKeyFile:s prometheusMetricsClientAuth:s "
        "failsafeInboundPorts:[.V3ProtoPort failsafeOutboundPorts:[.V3ProtoPort kubeNodePortRanges:[I "
        "policySyncPathPrefix:s usageReportingEnabled:b usageReportingInitialDelay:s usageReportingInterval:s "
        "natPortRange:I natOutgoingAddress:s natOutgoingExclusions:s deviceRouteSourceAddress:s "
        "deviceRouteSourceAddressIPv6:s deviceRouteProtocol:i removeExternalRoutes:b programClusterRoutes:s "
        "ipForwarding:s externalNodesList:[s debugMemoryProfilePath:s debugDisableLogDropping:b "
        "debugSimulateCalcGraphHangAfter:s debugSimulateDataplaneHangAfter:s "
        "debugSimulateDataplaneApplyDelay:s debugHost:s debugPort:i sidecarAccelerationEnabled:b xdpEnabled:b "
        "genericXDPEnabled:b bpfEnabled:b bpfDisableUnprivileged:b bpfLogLevel:s bpfConntrackLogLevel:s "
        "bpfLogFilters:{s bpfDataIfacePattern:s bpfL3IfacePattern:s bpfConnectTimeLoadBalancingEnabled:b "
        "bpfConnectTimeLoadBalancing:s bpfHostNetworkedNATWithoutCTLB:s bpfExternalServiceMode:s "
        "bpfDSROptoutCIDRs:[s bpfExtToServiceConnmark:i bpfKubeProxyIptablesCleanupEnabled:b "
        "bpfKubeProxyMinSyncPeriod:s bpfKubeProxyEndpointSlicesEnabled:b bpfKubeProxyHealthzPort:i "
        "bpfPSNATPorts:I bpfMapSizeNATFrontend:i bpfMapSizeNATBackend:i bpfMapSizeNATAffinity:i "
        "bpfMapSizeRoute:i bpfMapSizeConntrack:i bpfMapSizePerCpuConntrack:i bpfMapSizeConntrackScaling:s "
        "bpfMapSizeConntrackCleanupQueue:i bpfMapSizeIPSets:i bpfMapSizeIfState:i bpfHostConntrackBypass:b "
        "bpfEnforceRPF:s bpfPolicyDebugEnabled:b bpfForceTrackPacketsFromIfaces:[s bpfDisableGROForIfaces:s "
        "bpfExcludeCIDRsFromNAT:[s bpfRedirectToPeer:s bpfAttachType:s bpfExportBufferSizeMB:i "
        "bpfConntrackMode:s bpfConntrackCleanupMode:s bpfConntrackTimeouts:o bpfCTLBLogFilter:s "
        "bpfProfiling:s bpfJITHardening:s routeSource:s routeTableRange:o routeTableRanges:[o "
        "routeSyncDisabled:b wireguardEnabled:b wireguardEnabledV6:b wireguardListeningPort:i "
        "wireguardListeningPortV6:i wireguardRoutingRulePriority:i wireguardInterfaceName:s "
        "wireguardInterfaceNameV6:s wireguardMTU:i wireguardMTUV6:i wireguardHostEncryptionEnabled:b "
        "wireguardKeepAlive:s wireguardThreadingEnabled:b awsSrcDstCheck:s mtuIfacePattern:s "
        "serviceLoopPrevention:s workloadSourceSpoofing:s floatingIPs:s windowsManageFirewallRules:s "
        "goGCThreshold:i goMemoryLimitMB:i goMaxProcs:i flowLogsFlushInterval:s flowLogsCollectorDebugTrace:b "
        "flowLogsGoldmaneServer:s flowLogsLocalReporter:s flowLogsPolicyEvaluationMode:s dropActionOverride:s "
        "requireMTUFile:b cgroupV2Path:s nftablesDNSPolicyMode:s istioAmbientMode:s istioDSCPMark:I "
        "liveMigrationRouteConvergenceTime:s"
    ),
    "V3ProtoPort": _type("protocol:s port:i net:s", "port"),
    "V3KubeControllersConfiguration": _root("o", "o"),
    "V3Profile": _root("o"),
    "V3BGPFilter": _root("o"),
    "V3CalicoNodeStatus": _root("o", "o"),
}
