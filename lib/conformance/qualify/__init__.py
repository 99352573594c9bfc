# SPDX-License-Identifier: Apache-2.0
"""From a report to an answer: qualified or not, better or worse than another, and what remains to be run.

Works on stored reports alone: no cluster, no pytest.  The one rule behind gates and comparisons is
:mod:`conformance.verdicts.acceptable`.
"""
