# SPDX-License-Identifier: Apache-2.0
"""What policies promise, and what Calico for Windows makes of them: a pure function from objects to verdicts.

    world = World(objects)
    oracle = Oracle(world, objects)
    oracle.explain(world.pods["shop/web"], "ingress", packet, WINDOWS)

It shares nothing with the lab, and is held against what Calico's own code gave (tests/golden/windows-policy).
"""
