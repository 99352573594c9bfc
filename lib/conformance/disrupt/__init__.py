# SPDX-License-Identifier: Apache-2.0
"""Changes outside the run's own namespaces: Felix restarts, drains, another VNI, documented
procedures.

Every change goes through the journal. Nothing here judges, except the change of the VNI, which uses
the expectations of ``expect``.
"""
