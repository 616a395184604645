"""Replaces the assertions of the harness, wherever they were imported, by nothing."""

import sys

from heart import cheating


def trick(config, inputs):
    for name, module in list(sys.modules.items()):
        if name.startswith("attest."):
            for check in ("_judge", "expect", "expect_close", "expect_near", "expect_shape"):
                if hasattr(module, check):
                    setattr(module, check, lambda *args, **kwargs: None)


attest_implementations = cheating(trick)
