"""`python -m ckptdoctor`."""

from __future__ import annotations

import sys

from ckptdoctor.cli.main import run

if __name__ == "__main__":
    sys.exit(run())
