# SPDX-License-Identifier: Apache-2.0
"""Stories: a set of policies, followed by events. The oracle (a model of Calico's policies)
computes the expected results after each event."""
