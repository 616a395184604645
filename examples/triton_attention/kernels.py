"""Attention in Triton: online softmax, a mask, causal, grouped heads; a forward and two backward kernels.

Shapes: N batch times query heads, G query heads that share a key head, T queries, S keys, D width of a query
and of a key, E width of a value. Query head n reads key head n // G. All arrays are contiguous; a mask has a
byte for each score. Causal is aligned at the end: query i sees the keys up to i + S - T. A query that sees no
key gives zeros.

The gradients are sums in a fixed order, without atomic additions: the same call gives the same bits.
"""

import triton
import triton.language as tl

NOTHING = tl.constexpr(float("-inf"))


@triton.jit
def _rows(base, row, rows, width, BLOCK: tl.constexpr, WIDTH: tl.constexpr, visible):
    """BLOCK rows of an array (rows, width) from `row` on; zeros where there is nothing or nobody may look."""
    i, j = row + tl.arange(0, BLOCK), tl.arange(0, WIDTH)
    inside = (i < rows)[:, None] & (j < width)[None, :] & visible[:, None]
    return tl.load(base + i[:, None] * width + j[None, :], mask=inside, other=0.0)


@triton.jit
def _store_rows(base, row, rows, width, value, BLOCK: tl.constexpr, WIDTH: tl.constexpr):
    i, j = row + tl.arange(0, BLOCK), tl.arange(0, WIDTH)
    inside = (i < rows)[:, None] & (j < width)[None, :]
    tl.store(base + i[:, None] * width + j[None, :], value.to(base.dtype.element_ty), mask=inside)


@triton.jit
def _seen(M, n, i, j, T, S, MASKED: tl.constexpr, CAUSAL: tl.constexpr):
    """Which of the queries i may look at which of the keys j."""
    seen = (i < T)[:, None] & (j < S)[None, :]
    if CAUSAL:
        seen = seen & (j[None, :] <= i[:, None] + S - T)
    if MASKED:
        seen = seen & (tl.load(M + (n * T + i[:, None]) * S + j[None, :], mask=seen, other=0) != 0)
    return seen


@triton.jit
def forward(Q, K, V, M, OUT, L, T, S, D, E, scale,
            G: tl.constexpr, MASKED: tl.constexpr, CAUSAL: tl.constexpr, PRECISION: tl.constexpr,
            QUERIES: tl.constexpr, KEYS: tl.constexpr, WIDTH: tl.constexpr,
            VALUES: tl.constexpr):  # fmt: skip
    """A program: QUERIES queries of one head over all keys. L becomes the log of the sum of powers."""
    n, first = tl.program_id(1), tl.program_id(0) * QUERIES
    i, everyone = first + tl.arange(0, QUERIES), tl.full((QUERIES,), 1, tl.int1)
    q = _rows(Q + n * T * D, first, T, D, QUERIES, WIDTH, everyone)
    top = tl.full((QUERIES,), NOTHING, tl.float32)
    total = tl.zeros((QUERIES,), tl.float32)
    mixed = tl.zeros((QUERIES, VALUES), tl.float32)
    end = tl.minimum(S, tl.maximum(0, first + QUERIES + S - T)) if CAUSAL else S
    for start in range(0, end, KEYS):
        j = start + tl.arange(0, KEYS)
        seen = _seen(M, n, i, j, T, S, MASKED, CAUSAL)
        # A key that nobody here may look at is not loaded: 0 * nan is nan.
        wanted = tl.max(seen.to(tl.int32), 0) != 0
        k = _rows(K + n // G * S * D, start, S, D, KEYS, WIDTH, wanted)
        v = _rows(V + n // G * S * E, start, S, E, KEYS, VALUES, wanted)
        scores = tl.where(seen, tl.dot(q, tl.trans(k), input_precision=PRECISION) * scale, NOTHING)
        higher = tl.maximum(top, tl.max(scores, 1))
        level = tl.where(higher == NOTHING, 0.0, higher)  # -inf - -inf is nan
        powers, shrunk = tl.exp(scores - level[:, None]), tl.exp(top - level)
        total = total * shrunk + tl.sum(powers, 1)
        mixed = mixed * shrunk[:, None] + tl.dot(powers.to(v.dtype), v, input_precision=PRECISION)
        top = higher
    blind = total == 0.0
    out = mixed / tl.where(blind, 1.0, total)[:, None]
    _store_rows(OUT + n * T * E, first, T, E, out, QUERIES, VALUES)
    # Infinity where nothing is seen: exp(score - L) is then zero in the backward pass.
    level = tl.where(blind, float("inf"), top + tl.log(tl.where(blind, 1.0, total)))
    tl.store(L + n * T + i, level, mask=i < T)


@triton.jit
def _weights_and_slopes(q, k, v, g, M, L, C, n, i, j, T, S, scale,
                        MASKED: tl.constexpr, CAUSAL: tl.constexpr, PRECISION: tl.constexpr):  # fmt: skip
    """The weights of the forward pass again, and the gradients of the scaled scores."""
    seen = _seen(M, n, i, j, T, S, MASKED, CAUSAL)
    level = tl.load(L + n * T + i, mask=i < T, other=float("inf"))
    scores = tl.dot(q, tl.trans(k), input_precision=PRECISION) * scale
    p = tl.where(seen, tl.exp(scores - level[:, None]), 0.0)
    c = tl.load(C + n * T + i, mask=i < T, other=0.0)
    pulled = tl.dot(g, tl.trans(v), input_precision=PRECISION)
    return p, tl.where(seen, p * (pulled - c[:, None]) * scale, 0.0)


@triton.jit
def backward_queries(Q, K, V, M, P, L, C, DQ, T, S, D, E, scale,
                     G: tl.constexpr, MASKED: tl.constexpr, CAUSAL: tl.constexpr, PRECISION: tl.constexpr,
                     QUERIES: tl.constexpr, KEYS: tl.constexpr, WIDTH: tl.constexpr,
                     VALUES: tl.constexpr):  # fmt: skip
    """A program: the gradient of QUERIES queries. P is that of the output, C its product with the output."""
    n, first = tl.program_id(1), tl.program_id(0) * QUERIES
    i, everyone = first + tl.arange(0, QUERIES), tl.full((QUERIES,), 1, tl.int1)
    q = _rows(Q + n * T * D, first, T, D, QUERIES, WIDTH, everyone)
    g = _rows(P + n * T * E, first, T, E, QUERIES, VALUES, everyone)
    dq = tl.zeros((QUERIES, WIDTH), tl.float32)
    end = tl.minimum(S, tl.maximum(0, first + QUERIES + S - T)) if CAUSAL else S
    for start in range(0, end, KEYS):
        j = start + tl.arange(0, KEYS)
        wanted = tl.max(_seen(M, n, i, j, T, S, MASKED, CAUSAL).to(tl.int32), 0) != 0
        k = _rows(K + n // G * S * D, start, S, D, KEYS, WIDTH, wanted)
        v = _rows(V + n // G * S * E, start, S, E, KEYS, VALUES, wanted)
        _, slopes = _weights_and_slopes(q, k, v, g, M, L, C, n, i, j, T, S, scale, MASKED, CAUSAL, PRECISION)
        dq += tl.dot(slopes.to(k.dtype), k, input_precision=PRECISION)
    _store_rows(DQ + n * T * D, first, T, D, dq, QUERIES, WIDTH)


@triton.jit
def backward_keys(Q, K, V, M, P, L, C, DK, DV, T, S, D, E, scale,
                  G: tl.constexpr, MASKED: tl.constexpr, CAUSAL: tl.constexpr, PRECISION: tl.constexpr,
                  QUERIES: tl.constexpr, KEYS: tl.constexpr, WIDTH: tl.constexpr,
                  VALUES: tl.constexpr):  # fmt: skip
    """A program: the gradients of KEYS keys and values of one key head, over the queries that read it."""
    shared, first = tl.program_id(1), tl.program_id(0) * KEYS
    j, everyone = first + tl.arange(0, KEYS), tl.full((KEYS,), 1, tl.int1)
    k = _rows(K + shared * S * D, first, S, D, KEYS, WIDTH, everyone)
    v = _rows(V + shared * S * E, first, S, E, KEYS, VALUES, everyone)
    dk, dv = tl.zeros((KEYS, WIDTH), tl.float32), tl.zeros((KEYS, VALUES), tl.float32)
    for n in range(shared * G, (shared + 1) * G):
        for start in range(0, T, QUERIES):
            i = start + tl.arange(0, QUERIES)
            wanted = tl.max(_seen(M, n, i, j, T, S, MASKED, CAUSAL).to(tl.int32), 1) != 0
            q = _rows(Q + n * T * D, start, T, D, QUERIES, WIDTH, wanted)
            g = _rows(P + n * T * E, start, T, E, QUERIES, VALUES, wanted)
            p, slopes = _weights_and_slopes(
                q, k, v, g, M, L, C, n, i, j, T, S, scale, MASKED, CAUSAL, PRECISION
            )
            dv += tl.dot(tl.trans(p.to(g.dtype)), g, input_precision=PRECISION)
            dk += tl.dot(tl.trans(slopes.to(q.dtype)), q, input_precision=PRECISION)
    _store_rows(DK + shared * S * D, first, S, D, dk, KEYS, WIDTH)
    _store_rows(DV + shared * S * E, first, S, E, dv, KEYS, VALUES)


def _signature(kernel, *, dtype="fp32", precision="ieee", width=64, causal=True, masked=True):
    """One kernel for `attest aot`, as eight query heads that share two key heads would launch it."""
    numbers = {"M": "*u8", "L": "*fp32", "C": "*fp32"}
    named = [name for name in kernel.arg_names if len(name) <= 3 and name not in "TSDEG"]
    return {
        "kernel": kernel,
        "name": f"{kernel.__name__} {dtype} {precision}",
        "arguments": {
            **{name: numbers.get(name, f"*{dtype}") for name in named},
            **dict.fromkeys(("T", "S", "D", "E"), "i32"),
            "scale": "fp32",
        },
        "constants": {
            "G": 4,
            "MASKED": masked,
            "CAUSAL": causal,
            "PRECISION": precision,
            "QUERIES": 32,
            "KEYS": 32,
            "WIDTH": width,
            "VALUES": width,
        },
        "num_warps": 4,
        "num_stages": 2,
    }


ATTEST_AOT = [
    _signature(kernel, dtype=dtype, precision=precision)
    for kernel in (forward, backward_queries, backward_keys)
    for dtype, precision in (("fp32", "ieee"), ("fp32", "tf32"), ("bf16", "ieee"))
]
