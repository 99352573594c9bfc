# SPDX-License-Identifier: Apache-2.0
"""The suite's own pods: chooses images and nodes, deploys the pods, and reads them back as
Workloads."""
