"""``python -m hybridlab``: the same as the ``hybridlab`` command."""

from hybridlab.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
