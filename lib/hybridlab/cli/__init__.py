"""``hybridlab up | status | faults | profiles``: composition root of the lab."""
