# SPDX-License-Identifier: Apache-2.0
"""The model of stories: states, events and classes of events.  Pure, without clock and requests."""
