# SPDX-License-Identifier: Apache-2.0
"""``calico-conformance calibrate``: measures the values that the suite assumes about nodes, and
compares them with the assumptions.

All measurements are made in namespaces of the run's own, within a time limit, and none of them
judges Calico. A measurement that fails, or for which no time is left, is recorded as not measured.
"""
