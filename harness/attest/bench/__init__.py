"""`attest bench`: how fast implementations are, beside peers and beside what the machine can do."""
