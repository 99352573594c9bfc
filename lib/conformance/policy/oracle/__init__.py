# SPDX-License-Identifier: Apache-2.0
"""What policies do: the documented effect ("the promise"), and the effect by Calico for Windows.
A pure function from objects to verdicts.

    world = World(objects)
    oracle = Oracle(world, objects)
    oracle.explain(world.pods["shop/web"], "ingress", packet, WINDOWS)

It shares nothing with the lab, and is tested against the results of Calico's own code
(tests/golden/windows-policy).
"""
