# SPDX-License-Identifier: Apache-2.0
"""``calico-conformance policy``: answers about policies in files or a cluster, before anything is
applied."""
