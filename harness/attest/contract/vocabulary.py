"""The twenty tokens of the digit operations, which `tokenize` and `detokenize` know."""

from __future__ import annotations

SPECIAL = ("PAD", "BOS", "EOS")
DIGITS = tuple("0123456789")
OPERATION_NAMES = ("FIRST", "SECOND", "LAST", "MAX", "MIN", "SUM", "COUNT")
TOKENS = (*SPECIAL, *DIGITS, *OPERATION_NAMES)
