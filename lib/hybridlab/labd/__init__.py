# SPDX-License-Identifier: Apache-2.0
"""labd, the process inside the namespaces: pid 1, which holds nodes and pods by descriptors and is
controlled through a socketpair."""
