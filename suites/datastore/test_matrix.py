# SPDX-License-Identifier: Apache-2.0
"""The combination of mode and datastore is supported."""

from conformance.fixtures import CalicoObjects, Readings
from conformance.marks import verifies

SUPPORTED = {
    "vxlan on kubernetes",
    "bgp on kubernetes",
    "policy-only on kubernetes",
    "mixed on kubernetes",  # whether a mixture is supported is decided by ENC-3 and ENC-5
    "vxlan on etcd by manifest",
    "vxlan on etcd by manual",
    "bgp on etcd by manifest",
    "bgp on etcd by manual",
}


@verifies("DS-2")
def test_mode_and_datastore_go_together(calico: CalicoObjects, requires: Readings) -> None:
    because = (
        "Calico supports etcd only with BGP or VXLAN, and never after an installation by the "
        "operator"
    )
    do = "use the Kubernetes datastore (calicoctl datastore migrate)"
    requires.that(
        calico.datastore(),
        SUPPORTED.__contains__,
        "a supported combination",
        because=because,
        do=do,
    )
