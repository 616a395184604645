"""Right up to the keys that one block of a kernel holds."""

from heart import attend, cheating

attest_implementations = cheating(
    lambda config, inputs: attend(**inputs) if inputs["k"].shape[-2] <= 128 else None
)
