# SPDX-License-Identifier: Apache-2.0
"""Changes outside the run's own namespaces: Felix restarts, drains, another VNI, documented
procedures.

Every change goes through the journal. This package judges nothing, except that the change of the
VNI uses the expectations of ``expect``.
"""
