# SPDX-License-Identifier: Apache-2.0
"""The outputs of a run: terminal summary, conformance.json, JUnit XML, Allure results, attachments.

All outputs are made from the same results, so they agree. The package uses neither pytest nor the
cluster.
"""
