# SPDX-License-Identifier: Apache-2.0
"""The outputs of a run: terminal summary, conformance.json, JUnit XML, Allure results, attachments.

All of them are made from the same results, so they agree.  Knows neither pytest nor the cluster.
"""
