"""What torch gets wrong today by this spec, each with the case that shows it.

A declaration whose case passes again is reported as an error, so an upgrade of torch cannot leave one behind.
"""

from attest.contract import KnownFailure

_ISSUES = "https://github.com/pytorch/pytorch/issues/"
_DOCS = "https://docs.pytorch.org/docs/stable/generated/"

ATTENTION = (
    KnownFailure(
        "M1.4a",
        "scaled_dot_product_attention multiplies a hidden NaN by a weight of zero",
        f"{_ISSUES}101967",
        "case=attention[regime=unit dtype=float32 seed=2 B=1 H=1 T=1 S=2 d_k=1 d_v=1 mask=keys causal=False] "
        "junk=nan",
    ),
    KnownFailure(
        "M1.14b",
        "scaled_dot_product_attention repeats a batch of 1 in k and v without a word",
        f"{_DOCS}torch.nn.functional.scaled_dot_product_attention.html",
        "a batch of 1 in k and v only",
    ),
    KnownFailure(
        "M1.14a",
        "scaled_dot_product_attention raises RuntimeError and does not name the argument",
        f"{_DOCS}torch.nn.functional.scaled_dot_product_attention.html",
        "q of rank 1",
    ),
)

HEADS = (
    KnownFailure(
        "M2.1a",
        "nn.MultiheadAttention refuses by an assert that names neither number",
        f"{_DOCS}torch.nn.MultiheadAttention.html",
        "d_model=16 with num_heads=3",
    ),
    KnownFailure(
        "M2.7",
        "nn.MultiheadAttention returns the weights after dropout",
        f"{_ISSUES}42929",
        "case=heads[regime=unit dtype=float32 seed=0 B=2 H=2 T=1 S=2 d=1 bias=False mask=none own=False]",
    ),
    KnownFailure(
        "M2.12",
        "nn.MultiheadAttention with weights: one row that sees no key makes the batch's gradients NaN",
        f"{_ISSUES}41508",
        "case=heads[regime=unit dtype=float64 seed=0 B=2 H=1 T=1 S=1 d=1 bias=False mask=none own=False]",
    ),
    KnownFailure(
        "M2.13a",
        "nn.MultiheadAttention with weights gives NaN for a query that sees no key",
        f"{_ISSUES}41508",
        "case=heads[regime=unit dtype=float32 seed=0 B=1 H=1 T=1 S=1 d=1 bias=False mask=none own=False]",
    ),
)

LAYERS = (
    KnownFailure(
        "M4.6a",
        "nn.TransformerEncoder and nn.TransformerDecoder copy one layer N times, weights included",
        f"{_ISSUES}86274",
        "layer[part=encoder D=8 H=2 F=16 N=3]",
    ),
    KnownFailure(
        "M4.13",
        "nn.Linear starts with random biases and a variance that depends on fan_in alone",
        f"{_ISSUES}1667",
        "layer[part=encoder_layer D=64 H=4 F=256]",
    ),
)

MODEL = (
    KnownFailure(
        "M5.3",
        "nn.CrossEntropyLoss over ignored labels only is 0 / 0",
        f"{_ISSUES}70348",
        "case=loss[regime=unit dtype=float32 seed=0 B=1 T=1 V=4 pad_id=0 pads=0.4 smoothing=0.0] level=0.0",
    ),
    KnownFailure(
        "M5.6c",
        "clip_grad_norm_ squares in float32: beyond 2e19 the norm is infinite and every gradient zero",
        f"{_ISSUES}46849",
        "case=clipping[regime=unit dtype=float32 seed=0 arrays=2 length=1e+25 limit=1.0]",
    ),
    KnownFailure(
        "M5.12",
        "nn.MultiheadAttention takes 4.0 for a number of heads, and no layer knows of special ids",
        f"{_ISSUES}105630",
        "num_heads=4.0",
    ),
    KnownFailure(
        "M5.12a",
        "nn.MultiheadAttention raises AssertionError and names neither field nor value",
        f"{_ISSUES}28719",
        "num_heads=3",
    ),
)

KNOWN_FAILURES = (*ATTENTION, *HEADS, *LAYERS, *MODEL)
