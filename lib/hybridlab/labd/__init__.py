# SPDX-License-Identifier: Apache-2.0
"""The process inside the namespaces: pid 1 that holds nodes and pods by descriptor and is driven over a socketpair."""
