# SPDX-License-Identifier: Apache-2.0
"""The embedded lab: a hybrid Linux/Windows Kubernetes cluster with Calico in a box.

Real packets between network namespaces, no root, no container engine, no image. The lab behaves as
Calico for Windows is documented to behave, and does not depend on any test's expectations. It
shares no code, no constant and no expectation with the ``conformance`` package, in either
direction.
"""
