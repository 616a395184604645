"""Self-attention by torch's two calls, which group heads with enable_gqa: the fused one, and flex_attention.

torch has no layer of this kind: nn.MultiheadAttention has neither key heads, nor heads of a width of their
own, nor a window. The linear maps are nn.Linear, and what hides keys is one mask.

Shapes: B batch, T tokens, D width, H query heads, G key heads, d width of a head.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention.flex_attention import flex_attention

from attest.contract import Config

from . import masks

BACKENDS = ("sdpa", "flex")
# What either call takes; it has no positions, no cap and no sinks.
OPTIONS = dict.fromkeys(
    ("num_kv_heads", "head_width", "window", "window_sides", "attention_scale", "qkv_bias"), "any"
)

# What else would change attention: all that either call leaves as it is.
LACKING = {
    "positions": ("sinusoidal", "learned", "none"),
    "score_cap": (None,),
    "sinks": (False,),
    "qk_norm": (False,),
}


class SelfAttention(nn.Module):
    """Linear maps around the fused call, or around flex_attention where the options name it."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        check(config)
        self.config = config
        self.flex = backend(config) == "flex"
        D, H, G, d = config.d_model, config.num_heads, config.kv_heads, config.d_head
        bias = config.bias if config.qkv_bias is None else config.qkv_bias
        self.query, self.key, self.value = (nn.Linear(D, heads * d, bias) for heads in (H, G, G))
        self.output = nn.Linear(H * d, D, config.bias)

    def forward(
        self, x: Tensor, mask: Tensor | None = None, positions: Tensor | None = None, causal: bool = False
    ) -> Tensor:
        q, k, v = (
            linear(x).unflatten(-1, (-1, self.config.d_head)).transpose(1, 2)  # (B, H or G, T, d)
            for linear in (self.query, self.key, self.value)
        )
        allowed = self.allowed(x, mask, positions, causal)[:, None]  # (B or 1, 1, T, T)
        scale = self.config.attention_scale
        if self.flex:
            heads = flexible(q, k, v, allowed[:, 0], scale)
        else:
            heads = functional.scaled_dot_product_attention(
                q, k, v, attn_mask=allowed, scale=scale, enable_gqa=True
            )
        return self.output(heads.transpose(1, 2).flatten(2))  # (B, T, D)

    def allowed(self, x: Tensor, mask: Tensor | None, positions: Tensor | None, causal: bool) -> Tensor:
        """(B or 1, T, T): everything that hides, in one mask, since the call takes a mask or is_causal."""
        B, T, _ = x.shape
        allowed = torch.ones(1, T, T, dtype=torch.bool, device=x.device)
        if mask is not None:
            plain, rows = mask.shape == (T, T), mask.ndim == 3 and mask.shape[0] in (1, B)
            if not plain and not (rows and mask.shape[1] in (1, T) and mask.shape[2] == T):
                raise ValueError(f"mask={tuple(mask.shape)} does not fit x={tuple(x.shape)}; give (B, 1, T)")
            allowed = allowed & mask
        places = torch.arange(T, device=x.device)[None] if positions is None else positions
        if places.shape[0] not in (1, B) or places.shape[1] != T:
            raise ValueError(f"positions={tuple(places.shape)} must be ({B}, {T}); give one for each token")
        if causal:
            allowed = allowed & masks.causal(T, T, x.device)
        return allowed & self.near(places) if self.config.window is not None else allowed

    def near(self, places: Tensor) -> Tensor:
        """(B or 1, T, T): what the window reaches."""
        distance, window = places[:, :, None] - places[:, None, :], self.config.window
        ahead = distance > -window if self.config.window_sides == "both" else distance >= 0
        return ahead & (distance < window)


def flexible(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor, scale: float | None) -> Tensor:
    """flex_attention, uncompiled; on the CPU it refuses gradients by NotImplementedError."""
    shown = allowed.expand(len(q), -1, -1)

    def seen(score: Tensor, b: Tensor, h: Tensor, t: Tensor, s: Tensor) -> Tensor:
        return torch.where(shown[b, t, s], score, -float("inf"))

    heads = flex_attention(q, k, v, score_mod=seen, scale=scale, enable_gqa=True)
    assert isinstance(heads, Tensor)
    return heads


def backend(config: Config) -> str:
    named = dict(config.options).get("backend", BACKENDS[0])
    if named not in BACKENDS:
        raise ValueError(f"backend={named!r} is unknown; choose one of {', '.join(BACKENDS)}")
    return named


def check(config: Config) -> None:
    """torch would divide and reshape whatever comes, and pass over what it does not have."""
    for name, values in LACKING.items():
        if getattr(config, name) not in values:
            had = ", ".join(map(repr, values))
            raise NotImplementedError(f"{name}={getattr(config, name)!r} is not offered; give {had}")
    if config.window_sides not in ("before", "both"):
        raise ValueError(f"window_sides={config.window_sides!r} is unknown; choose before or both")
    for name in ("num_heads", "kv_heads", "d_head", "window"):
        value = getattr(config, name)
        whole = isinstance(value, int) and not isinstance(value, bool) and value >= 1
        if not whole and (name != "window" or value is not None):
            raise ValueError(f"{name}={value!r} is not a whole number of at least 1; give one")
    if config.num_heads % config.kv_heads:
        raise ValueError(
            f"num_kv_heads={config.kv_heads} does not divide num_heads={config.num_heads}; choose a divisor"
        )
    if config.head_width is None and config.d_model % config.num_heads:
        raise ValueError(
            f"num_heads={config.num_heads} does not divide d_model={config.d_model}; choose a divisor"
        )
