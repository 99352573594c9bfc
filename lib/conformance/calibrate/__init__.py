# SPDX-License-Identifier: Apache-2.0
"""``calico-conformance calibrate``: measures what the suite assumes of nodes, and compares.

Everything is measured in namespaces of the run's own, within a time box, and nothing here judges
Calico.  What breaks or finds no time is recorded as not measured.
"""
