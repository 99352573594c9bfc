# SPDX-License-Identifier: Apache-2.0
"""``calico-conformance calibrate``: measures what the suite assumes about nodes, and compares the
values.

Everything is measured in namespaces of the run's own, within a time limit, and nothing here judges
Calico. A measurement that fails, or for which no time is left, is recorded as not measured.
"""
