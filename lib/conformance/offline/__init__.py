# SPDX-License-Identifier: Apache-2.0
"""``calico-conformance policy``: answers about files or a cluster before anything is applied."""
