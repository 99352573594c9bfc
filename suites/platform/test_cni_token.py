# SPDX-License-Identifier: Apache-2.0
"""Calico's CNI plugin uses a token for the API that expires, and that calico-node has to renew."""

from conformance.fixtures import CniTokens, KnownIssue
from conformance.marks import needs, verifies


@verifies("XLC-1")
@needs(host_process=True)
def test_the_token_of_the_cni_plugin_may_have_ended(
    cni_tokens: CniTokens, known_issue: KnownIssue
) -> None:
    because = (
        "nothing renewed the token of the CNI plugin, so new pods on that node are refused as "
        "Unauthorized"
    )
    do = (
        "run this claim again after calico-node has run for 24 h; on the host, check the exp of "
        "the token in calico-kubeconfig"
    )
    known_issue.may_be_read(cni_tokens.ended, on=cni_tokens.windows, because=because, do=do)
