"""Mode and datastore are a combination that is supported."""

from conformance.fixtures import CalicoObjects, Readings
from conformance.marks import verifies

SUPPORTED = {
    "vxlan on kubernetes by operator",
    "vxlan on kubernetes by manifest",
    "vxlan on kubernetes by manual",
    "vxlan on etcd by manifest",
    "vxlan on etcd by manual",
    "bgp on kubernetes by operator",
    "bgp on kubernetes by manifest",
    "bgp on kubernetes by manual",
    "bgp on etcd by manifest",
    "bgp on etcd by manual",
    "policy-only on kubernetes by operator",
    "policy-only on kubernetes by manifest",
    "policy-only on kubernetes by manual",
    # what is wrong with a mixture is for ENC-3 and ENC-5 to say; every mode goes with the Kubernetes API
    "mixed on kubernetes by operator",
    "mixed on kubernetes by manifest",
    "mixed on kubernetes by manual",
}


@verifies("DS-2")
def test_mode_and_datastore_go_together(calico: CalicoObjects, requires: Readings) -> None:
    because = "etcd works with Calico BGP and VXLAN only, and never where the operator installed Calico"
    do = "use the Kubernetes datastore (calicoctl datastore migrate)"
    requires.each(calico.datastore(), SUPPORTED.__contains__, "a supported combination", because=because, do=do)
