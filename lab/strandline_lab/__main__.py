"""`python -m strandline_lab`: the command line of the laboratory."""

from __future__ import annotations

from strandline_lab.cli.__main__ import main

if __name__ == "__main__":
    main()
