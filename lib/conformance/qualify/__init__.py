# SPDX-License-Identifier: Apache-2.0
"""Answers from reports: whether a run qualifies, whether it is better or worse than another run,
and which tests remain to be run.

The package uses only reports, and neither a cluster nor pytest.
:mod:`conformance.verdicts.acceptable` has the rule for gates and comparisons.
"""
