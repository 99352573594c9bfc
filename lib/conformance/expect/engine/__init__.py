"""How a path is decided: what is asked, how often, and when several answers agree."""
