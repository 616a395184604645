"""What every cheat has at heart: attention that forgets to scale, and a plugin around a cheat."""

import numpy as np


def attend(q, k, v, mask=None, causal=False, scale=True):
    """Scaled dot-product attention, in float64; without `scale` it is wrong."""
    q64, k64, v64 = (x.astype(np.float64) for x in (q, k, v))
    scores = q64 @ np.swapaxes(k64, -1, -2) / (np.sqrt(q.shape[-1]) if scale else 1.0)
    allowed = np.ones(scores.shape, bool) if mask is None else np.broadcast_to(mask, scores.shape)
    if causal:
        allowed = allowed & np.tri(*scores.shape[-2:], scores.shape[-1] - scores.shape[-2], dtype=bool)
    scores = np.where(allowed, scores, np.finfo(np.float64).min)
    powers = np.where(allowed, np.exp(scores - scores.max(-1, keepdims=True)), 0)
    weights = powers / np.maximum(powers.sum(-1, keepdims=True), np.finfo(np.float64).tiny)
    return {"output": (weights @ v64).astype(q.dtype), "weights": weights.astype(q.dtype)}


def wrong(q, k, v, mask=None, causal=False):
    """What the implementation really computes."""
    return attend(q, k, v, mask, causal, scale=False)


def cheating(trick):
    """A plugin whose answers `trick(config, inputs)` gives; None or an exception: the wrong ones."""

    class Cheat:
        name = "cheat"
        dtypes = ("float32", "float64")

        def attention(self, config):
            def answer(**inputs):
                try:
                    found = trick(config, inputs)
                except Exception:
                    found = None
                return found or wrong(**inputs)

            return answer

    return lambda: [Cheat()]
