# SPDX-License-Identifier: Apache-2.0
"""The answers from reports: qualified or not, better or worse, and the tests that remain to be run.

It uses only stored reports: no cluster, no pytest. The rule for gates and comparisons is
:mod:`conformance.verdicts.acceptable`.
"""
