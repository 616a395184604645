"""`python -m attest.cli` is `attest`."""

from attest.cli import main

main()
