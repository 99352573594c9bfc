# SPDX-License-Identifier: Apache-2.0
"""What fields an object may have: compact data, and the one place that reads it."""
