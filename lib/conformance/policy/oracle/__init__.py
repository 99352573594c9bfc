# SPDX-License-Identifier: Apache-2.0
"""The effect of policies: the documented effect ("the promise"), and the effect by Calico for
Windows. A pure function from objects to verdicts.

    world = World(objects)
    oracle = Oracle(world, objects)
    oracle.explain(world.pods["shop/web"], "ingress", packet, WINDOWS)

This package shares nothing with the lab, and is tested against the results of Calico's own code
(tests/golden/windows-policy).
"""
