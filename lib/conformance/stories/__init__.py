# SPDX-License-Identifier: Apache-2.0
"""Stories: policies over time, event by event, with the oracle's expectation after each event."""
