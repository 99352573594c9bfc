# SPDX-License-Identifier: Apache-2.0
"""``hybridlab up | status | faults | profiles``: the command that puts the parts of the lab
together."""
