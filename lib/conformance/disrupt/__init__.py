# SPDX-License-Identifier: Apache-2.0
"""Changes beyond the run's own namespaces: Felix restarts, drains, another VNI, documented
procedures.

Every change goes through the journal.  Nothing here judges, except the story of the VNI, which
expects through ``expect``.
"""
