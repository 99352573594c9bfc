# SPDX-License-Identifier: Apache-2.0
"""labd, pid 1 of the lab's namespaces: it holds nodes and pods by file descriptors, and the cluster
controls it through a socketpair."""
