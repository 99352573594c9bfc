# SPDX-License-Identifier: Apache-2.0
"""The answers from reports: qualified or not, better or worse, and the remaining tests to run.

Works on stored reports alone: no cluster, no pytest.  The rule behind gates and comparisons is
:mod:`conformance.verdicts.acceptable`.
"""
