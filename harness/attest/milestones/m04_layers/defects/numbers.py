"""Layer norms with the right formula and wrong numbers: another eps, a floor, fewer bits."""

from __future__ import annotations

import numpy as np

from attest.judging.catalogue import defect
from attest.judging.coarse import BRAIN, SINGLE, clamped, rounded_to
from attest.reference import ops
from attest.reference.parts.norms import LayerNorm
from attest.reference.scope import Scope
from attest.reference.tape import Var


class _FixedEps(LayerNorm):
    eps: float

    def __call__(self, x: Var, p: Scope) -> Var:
        return ops.layer_norm(x, p["weight"], p["bias"], self.eps)


@defect("M4.9")
class eps_is_1e_3(_FixedEps):
    """eps is 0.001 whatever is configured, as in another library's default."""

    eps = 1e-3


@defect("M4.9")
class eps_is_1e_12(_FixedEps):
    """eps is 1e-12 whatever is configured, as models like BERT have it."""

    eps = 1e-12


@defect("M4.9")
class eps_is_squared(LayerNorm):
    """The root of the variance plus eps squared divides."""

    def __call__(self, x: Var, p: Scope) -> Var:
        return ops.layer_norm(x, p["weight"], p["bias"], self.config.norm_eps**2)


class _Coarse(LayerNorm):
    bits: int

    def __call__(self, x: Var, p: Scope) -> Var:
        return super().__call__(rounded_to(x, self.bits), p)


@defect("M4.9")
class norm_reads_bfloat16(_Coarse):
    """The input is rounded to the 8 bits of bfloat16."""

    bits = BRAIN


@defect("M4.9")
class norm_reads_single_precision(_Coarse):
    """The input is rounded to float32 whatever the dtype: seen in float64 alone."""

    bits = SINGLE


@defect("M4.9")
class norm_clamps_its_output(LayerNorm):
    """What is normed stays between -3 and 3 before the gain."""

    def __call__(self, x: Var, p: Scope) -> Var:
        plain = {"weight": np.ones(x.shape[-1]), "bias": np.zeros(x.shape[-1])}
        ones, zeros = (Var(plain[name], None, x.eps) for name in ("weight", "bias"))
        h = ops.layer_norm(x, ones, zeros, self.config.norm_eps)
        kept = ops.elementwise(h, np.clip(h.value, -3.0, 3.0), (np.abs(h.value) < 3.0).astype(float))
        return ops.add(ops.mul(kept, p["weight"]), p["bias"])


@defect("M4.9")
class norm_cut_at_30(LayerNorm):
    """What the norm gives is cut at 30, where a learned weight can bring it."""

    def __call__(self, x: Var, p: Scope) -> Var:
        return clamped(super().__call__(x, p), 30.0)
