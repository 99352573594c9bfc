# SPDX-License-Identifier: Apache-2.0
"""``hybridlab up | status | faults | profiles``: composition root of the lab."""
