# SPDX-License-Identifier: Apache-2.0
"""What changes more than the run's own namespaces: Felix restarts, drains, another VNI, the
documented procedures.

Every change goes through the journal; nothing here judges, but for the story of the VNI, which expects through
``expect``.
"""
