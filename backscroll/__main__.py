"""`python -m backscroll` is the command `backscroll`."""

from __future__ import annotations

from backscroll.flows.cli.main import main

if __name__ == "__main__":
    main(prog_name="backscroll")
