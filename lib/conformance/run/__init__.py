# SPDX-License-Identifier: Apache-2.0
"""The parts of a run that do not depend on pytest: the choice of the cluster, the run's lab, the
folder that its processes share, and the objects that tests receive."""
