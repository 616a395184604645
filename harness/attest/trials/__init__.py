"""How many faults are caught: of a file of implementations (`attest trial`), of mutants (`attest mutate`)."""
