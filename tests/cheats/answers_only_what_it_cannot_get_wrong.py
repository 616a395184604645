"""Says of every case that it is not implemented, but for those where a forgotten factor changes nothing."""

from heart import wrong


class Cheat:
    name = "cheat"
    dtypes = ("float32", "float64")

    def attention(self, config):
        def answer(**inputs):
            if inputs["k"].shape[-2] > 1:
                raise NotImplementedError("more than one key is not implemented")
            return wrong(**inputs)

        return answer


def attest_implementations():
    return [Cheat()]
