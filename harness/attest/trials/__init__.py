"""How many faults are caught: files of faulty implementations (`attest trial`) and mutated ones (`attest mutate`)."""
