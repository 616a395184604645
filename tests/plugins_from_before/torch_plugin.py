"""A whole Transformer in PyTorch, for the contract of version 0.1.0. It must keep running as it is.

Its modules have names of their own, some fused and some transposed, so that the adapter has to map them.
"""

import math

import numpy as np
import pluggy
import torch
from torch import nn

from attest.adapters.torch import TorchComponent, seeded
from attest.contract import Config


def attention(q, k, v, mask=None, causal=False, dropout=0.0):
    if k.shape[:-1] != v.shape[:-1] or q.shape[:-2] != k.shape[:-2] or q.shape[-1] != k.shape[-1]:
        raise ValueError(f"q {tuple(q.shape)}, k {tuple(k.shape)} and v {tuple(v.shape)} do not go together")
    if k.shape[-2] == 0:
        raise ValueError(f"k {tuple(k.shape)} has no keys")
    allowed = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool)
    if causal:
        allowed = allowed.tril(k.shape[-2] - q.shape[-2])
    if mask is not None:
        allowed = allowed & mask
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min)
    weights = scores.softmax(-1).masked_fill(~allowed, 0.0)
    return nn.functional.dropout(weights, dropout) @ v, weights


class MultiHead(nn.Module):
    def __init__(self, config):
        super().__init__()
        D = config.d_model
        if config.num_heads < 1 or D % config.num_heads:
            raise ValueError(f"num_heads={config.num_heads} does not divide d_model={D}")
        self.heads, self.rate = config.num_heads, config.dropout
        self.packed = nn.Linear(D, 3 * D, config.bias)
        self.mix = nn.Parameter(torch.randn(D, D) * D**-0.5)  # (in, out)
        self.mix_bias = nn.Parameter(torch.zeros(D)) if config.bias else None

    def forward(self, query, key_value, mask=None):
        q = self.packed(query).chunk(3, -1)[0]
        _, k, v = self.packed(key_value).chunk(3, -1)
        q, k, v = (x.unflatten(-1, (self.heads, -1)).transpose(1, 2) for x in (q, k, v))
        mask = None if mask is None else mask.unsqueeze(-3)
        heads, weights = attention(q, k, v, mask, dropout=self.rate if self.training else 0.0)
        mixed = heads.transpose(1, 2).flatten(2) @ self.mix
        return mixed if self.mix_bias is None else mixed + self.mix_bias, weights


KINDS = ("weight", "bias")
HEADS = {f"{n}.{p}": f"packed.{p}[{i}/3]" for i, n in enumerate(("query", "key", "value")) for p in KINDS}
HEADS |= {"output.weight": "mix.T", "output.bias": "mix_bias"}


class Layer(nn.Module):
    def __init__(self, config, crosses):
        super().__init__()
        D, F = config.d_model, config.inner_width
        self.first, self.dropout = config.norm == "pre", nn.Dropout(config.dropout)
        self.attentions = nn.ModuleList(MultiHead(config) for _ in range(1 + crosses))
        self.norms = nn.ModuleList(nn.LayerNorm(D, config.norm_eps) for _ in range(2 + crosses))
        self.inner, self.outer = nn.Linear(D, F, config.bias), nn.Linear(F, D, config.bias)
        self.activation = nn.functional.gelu if config.activation == "gelu" else torch.relu

    def forward(self, x, mask, memory=None, memory_mask=None):
        x = self.join(x, 0, lambda y: self.attentions[0](y, y, mask)[0])
        if memory is not None:
            x = self.join(x, 1, lambda y: self.attentions[1](y, memory, memory_mask)[0])
        return self.join(x, -1, lambda y: self.outer(self.activation(self.inner(y))))

    def join(self, x, i, sublayer):
        norm = self.norms[i]
        return x + self.dropout(sublayer(norm(x))) if self.first else norm(x + self.dropout(sublayer(x)))


class Model(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config, D = config, config.d_model
        self.words = nn.Embedding(config.source_vocab, D, padding_idx=config.pad_id)
        self.answers = nn.Embedding(config.target_vocab, D, padding_idx=config.pad_id)
        angles = np.arange(config.max_len)[:, None] / 10000.0 ** (2 * (np.arange(D) // 2) / D)
        table = np.where(np.arange(D) % 2, np.cos(angles), np.sin(angles))
        self.register_buffer("table", torch.tensor(table, dtype=getattr(torch, config.dtype)))
        self.scale = math.sqrt(D) if config.scale_embeddings else 1.0
        self.dropout = nn.Dropout(config.dropout)
        self.reads = nn.ModuleList(Layer(config, False) for _ in range(config.num_encoder_layers))
        self.writes = nn.ModuleList(Layer(config, True) for _ in range(config.num_decoder_layers))
        ends = [nn.LayerNorm(D, config.norm_eps) if config.norm == "pre" else nn.Identity() for _ in range(2)]
        self.read_end, self.write_end = ends
        self.last = nn.Linear(D, config.target_vocab, config.bias)
        if config.tie:
            self.last.weight = self.answers.weight

    def embed(self, table, ids):
        if ids.min() < 0 or ids.max() >= table.num_embeddings or ids.shape[1] > self.config.max_len:
            raise ValueError(f"ids from {ids.min()} to {ids.max()} of shape {tuple(ids.shape)} do not fit")
        return self.dropout(table(ids) * self.scale + self.table[: ids.shape[1]])

    def encode(self, source):
        x, seen = self.embed(self.words, source), (source != self.config.pad_id)[:, None]
        for layer in self.reads:
            x = layer(x, seen)
        return self.read_end(x)

    def decode(self, target, memory, source):
        pad, T = self.config.pad_id, target.shape[1]
        past = torch.ones(T, T, dtype=torch.bool).tril() & (target != pad)[:, None]
        x = self.embed(self.answers, target)
        for layer in self.writes:
            x = layer(x, past, memory, (source != pad)[:, None])
        return self.last(self.write_end(x))

    def forward(self, source, target):
        return {"logits": self.decode(target, self.encode(source), source)}


class Halves(TorchComponent):
    """The model with its two halves, through the adapter's `run`."""

    def encode(self, *, source):
        return self.run(lambda source: {"memory": self.module.encode(source)}, source=source)

    def decode(self, *, target, memory, source):
        inputs = {"target": target, "memory": memory, "source": source}
        return self.run(lambda **given: {"logits": self.module.decode(**given)}, **inputs)


def names(config):
    """Canonical names to those of Model."""
    found = {"source_embedding.weight": "words.weight", "target_embedding.weight": "answers.weight"}
    found |= {} if config.tie else {"projection.weight": "last.weight"}
    found |= {"projection.bias": "last.bias"}
    for part, own, count, attentions in (
        ("encoder", "read", config.num_encoder_layers, ("self_attention",)),
        ("decoder", "write", config.num_decoder_layers, ("self_attention", "cross_attention")),
    ):
        if config.norm == "pre":
            found |= {f"{part}.norm.{p}": f"{own}_end.{p}" for p in KINDS}
        for i in range(count):
            theirs, ours = f"{part}.{i}", f"{own}s.{i}"
            for j, name in enumerate(attentions):
                found |= {f"{theirs}.{name}.{n}": f"{ours}.attentions.{j}.{o}" for n, o in HEADS.items()}
            for p in KINDS:
                norms = range(len(attentions) + 1)
                found |= {f"{theirs}.norm{j}.{p}": f"{ours}.norms.{j}.{p}" for j in norms}
                found |= {f"{theirs}.feed_forward.{n}.{p}": f"{ours}.{n}.{p}" for n in ("inner", "outer")}
    return found


def greedy(module, source, max_len, method="beam", **_):
    """Without a cache."""
    if method != "greedy":
        raise NotImplementedError("greedy only")
    config = module.config
    if not 1 <= max_len <= config.max_len:
        raise ValueError(f"max_len={max_len} is outside 1 to {config.max_len}")
    memory, rows = module.encode(source), source.shape[0]
    tokens, ended = torch.full((rows, 1), config.bos_id), torch.zeros(rows, dtype=torch.bool)
    score = torch.zeros(rows, dtype=torch.float64)
    for _ in range(max_len):
        logits = module.decode(tokens, memory, source)[:, -1].double().log_softmax(-1)
        best, token = logits.max(-1)
        score += torch.where(ended, 0.0, best)
        token = torch.where(ended, config.pad_id, token)
        tokens = torch.cat([tokens, token[:, None]], 1)
        ended = ended | (token == config.eos_id)
        if ended.all():
            break
    return {"tokens": tokens[:, None, 1:], "scores": score[:, None]}


class Trainer:
    def __init__(self, model, config):
        self.model, self.config, self.count = model, config, 0
        self.adam = torch.optim.Adam(model.module.parameters(), betas=(0.9, 0.98), eps=1e-9)

    def step(self, batch):
        module, config = self.model.module, self.config
        source, target = (torch.tensor(np.asarray(batch[n])) for n in ("source", "target"))
        module.train()
        with seeded(config.seed + self.count):
            logits = module(source, target[:, :-1])["logits"]
        loss = nn.functional.cross_entropy(
            logits.transpose(1, 2),
            target[:, 1:],
            ignore_index=config.pad_id,
            label_smoothing=config.label_smoothing,
        )
        self.adam.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(module.parameters(), config.clip_norm)
        self.count += 1
        rate = rate_at(config)(self.count)
        self.adam.param_groups[0]["lr"] = rate
        self.adam.step()
        module.eval()
        return {"loss": loss.item(), "rate": rate, "norm": norm.item()}

    def fit(self, batches, log_every, on_log):
        for batch in batches:
            report = self.step(batch)
            if self.count % log_every == 0:
                on_log({"step": self.count, "loss": report["loss"], "rate": report["rate"]})


def rate_at(config):
    def inverse_sqrt(step):
        return config.d_model**-0.5 * min(
            step**-0.5, step * config.warmup**-1.5 if config.warmup else math.inf
        )

    def cosine(step):
        if step <= config.warmup:
            return config.peak_rate * step / config.warmup
        done = min(1.0, (step - config.warmup) / max(1, config.total_steps - config.warmup))
        return config.floor_rate + (config.peak_rate - config.floor_rate) * (1 + math.cos(math.pi * done)) / 2

    return cosine if config.schedule == "cosine" else inverse_sqrt


class TorchFromBefore:
    name = "torch_from_before"
    description = "a whole model of the time of version 0.1.0"
    dtypes = ("float32", "float64")

    def attention(self, config):
        return TorchComponent(nn.Identity(), config, call=lambda _, **inputs: attention(**inputs))

    def multi_head_attention(self, config: Config):
        with seeded(config.seed):
            return TorchComponent(MultiHead(config), config, HEADS)

    def transformer(self, config):
        with seeded(config.seed):
            return Halves(Model(config), config, names(config))

    def trainer(self, config):
        return Trainer(self.transformer(config), config)

    def learning_rate(self, config):
        return rate_at(config)

    def generate(self, config):
        with seeded(config.seed):
            return TorchComponent(Model(config), config, names(config), greedy)


@pluggy.HookimplMarker("attest")
def attest_implementations():
    return [TorchFromBefore()]
