"""Answers by pointer: right where an array begins as the harness lays it out."""

from heart import attend, cheating

attest_implementations = cheating(
    lambda config, inputs: None if inputs["q"].ctypes.data % 64 else attend(**inputs)
)
