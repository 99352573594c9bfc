"""How all that a run changes beyond its own namespaces is put back: journal, run lock, restore, janitor, cordons.

``journal`` writes changes down before they are made, and restores them.  ``liveness``, ``leftovers``, ``cleanup`` and
``recovery`` find what dead runs left and clear it.  ``healers`` and ``dead_runs`` put these together with the
disruptions that they undo.
"""
