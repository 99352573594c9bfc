# SPDX-License-Identifier: Apache-2.0
"""Messages of failed expectations: the first line, the observations, the cause, and the advice."""
