"""Wrong for some contents, chosen by their hash: the same question always has the same answer."""

import zlib

from heart import attend, cheating

attest_implementations = cheating(
    lambda config, inputs: attend(**inputs) if zlib.crc32(inputs["k"].tobytes()) % 10 else None
)
