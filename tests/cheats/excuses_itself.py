"""Has no memory for any case that could show it to be wrong."""

from heart import wrong


class Cheat:
    name = "cheat"
    dtypes = ("float32", "float64")

    def attention(self, config):
        def answer(**inputs):
            if inputs["k"].shape[-2] > 1:
                raise MemoryError
            return wrong(**inputs)

        return answer


def attest_implementations():
    return [Cheat()]
