"""Declares what it may, and more once it was read."""

from heart import wrong


class Cheat:
    name = "cheat"
    dtypes = ("float32", "float64")
    wider_bounds = {"attention": 1000.0}  # noqa: RUF012

    def attention(self, config):
        Cheat.wider_bounds["attention"] = 1e300
        return wrong


def attest_implementations():
    return [Cheat()]
