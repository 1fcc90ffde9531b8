"""``python -m ortconv``: the command line."""

from __future__ import annotations

from ortconv.cli import main

if __name__ == "__main__":
    main()
