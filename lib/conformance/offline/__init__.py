# SPDX-License-Identifier: Apache-2.0
"""``calico-conformance policy``: answers about policies in files or in a cluster, before a policy
is applied."""
