# SPDX-License-Identifier: Apache-2.0
"""A pool of the run's own that gives out no address. A test uses it to find out which changes of a
pool the API accepts, since a dry run of the server accepts every change. 198.18.0.0/15 is reserved
for measurements (RFC 2544), so no real packets go there."""

from conformance.errors import MissingCapability, Nonconformance
from conformance.expect.context import Context
from conformance.journal.journalled import Journalled
from conformance.kube.changes import reference
from conformance.kube.refused import ApiRefused

CIDR = "198.18.0.0/24"
SIZE = 26
LARGER = 25


class OwnPool:
    """The pool of a test; the journal restores it."""

    def __init__(self, journalled: Journalled, context: Context) -> None:
        self._journalled = journalled
        self._context = context

    def keeps_its_block_size(self, *, because: str) -> None:
        """Expect the API to refuse larger blocks. Raise Nonconformance if the API accepts them,
        MissingCapability if the user may not change pools."""
        changes = self._journalled.changes
        there = changes.kube.objects("projectcalico.org/v3", "IPPool")
        modes = (
            {key: there[0]["spec"].get(key, "Never") for key in ("vxlanMode", "ipipMode")}
            if there
            else {}
        )
        spec = {
            "cidr": CIDR,
            "blockSize": SIZE,
            "disabled": True,
            "nodeSelector": "!all()",
            "natOutgoing": False,
        }
        pool = {
            "metadata": {"name": f"{changes.run.namespace}-pool"},
            "apiVersion": "projectcalico.org/v3",
            "kind": "IPPool",
        }
        try:
            self._journalled.create(
                {**pool, "spec": spec | modes}, "a pool that assigns no address"
            )
            self._journalled.patch(
                reference(pool), {"spec": {"blockSize": LARGER}}, "requests larger blocks"
            )
        except ApiRefused as refusal:
            if refusal.forbidden:
                raise MissingCapability(
                    str(refusal), "bind the role of manifests/rbac/pools.yaml"
                ) from refusal
            if refusal.code != 422 or "BlockSize" not in refusal.message:
                raise
            self._context.as_expected(f"{because} ({refusal.message})", "behaviour")
        else:
            raise Nonconformance(
                f"IPAM-5  blockSize of an existing IPPool  expected to be refused, observed /{SIZE} -> /{LARGER}\n"
                f"  because  {because}\n  do       choose the size before you create a pool; existing blocks keep their size"
            )
