"""Right in float32, in which most is asked."""

from heart import attend, cheating

attest_implementations = cheating(
    lambda config, inputs: attend(**inputs) if inputs["q"].dtype.itemsize == 4 else None
)
