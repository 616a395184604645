"""Faults met in other projects, each as an edit of eager's source: `attest trial tests/field_faults.py`.

Every implementation is a copy of the package with a few lines replaced. `seen_in` is the public issue.
"""

import atexit
import importlib
import shutil
import sys
import tempfile
from pathlib import Path

import attest_impls.eager as eager

HOME = Path(tempfile.mkdtemp(prefix="field_faults_"))
atexit.register(shutil.rmtree, HOME, ignore_errors=True)
sys.path.insert(0, str(HOME))


def changed(name, fault, seen_in, *edits, correct=False, milestones=("M1", "M2", "M3", "M4", "M5", "M6")):
    """eager with each (file, old, new) made; an edit that finds nothing is a mistake of this file."""
    package = HOME / f"eager_{name}"
    shutil.copytree(Path(eager.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    for file, old, new in edits:
        text = (package / file).read_text()
        assert text.count(old) == 1, f"{name}: {old!r} stands {text.count(old)} times in {file}"
        (package / file).write_text(text.replace(old, new))
    implementation = importlib.import_module(package.name).attest_implementations()[0]
    implementation.name, implementation.correct = name, correct
    implementation.fault, implementation.milestones = f"{fault} ({seen_in})", milestones
    return implementation


def attest_implementations():
    return [
        changed("untouched", "None.", "control", correct=True),
        changed(
            "norm_by_rsqrt",
            "None.",
            "control",
            (
                "norms.py",
                "centred / torch.sqrt(variance + self.eps)",
                "centred * torch.rsqrt(variance + self.eps)",
            ),
            correct=True,
        ),
        changed(
            "columns_of_padding_cut",
            "The encoder's output ends with the last column that any row shows.",
            "pytorch/pytorch#97111",
            (
                "model.py",
                "            x = layer(x, mask, bias)  # (B, T, D)\n        return self.norm(x)  # (B, T, D)",
                "            x = layer(x, mask, bias)  # (B, T, D)\n"
                "        if mask is not None and mask.ndim == 3 and not self.training and bool(mask.any()):\n"
                "            x = x[:, : int(mask.flatten(0, 1).any(0).nonzero().max()) + 1]\n"
                "        return self.norm(x)  # (B, T, D)",
            ),
        ),
        changed(
            "square_mask_taken_for_padding",
            "A mask (T, S) is taken for one row per sequence where T equals the batch.",
            "pytorch/pytorch#21518",
            (
                "model.py",
                "            mask = mask.unsqueeze(-3)  # (..., 1, T, S)",
                "            mask = mask[:, None] if mask.ndim == 2 and len(mask) == len(query) else mask\n"
                "            mask = mask.unsqueeze(-3)  # (..., 1, T, S)",
            ),
        ),
        changed(
            "mask_of_one_column_hides_one_key",
            "A mask whose last axis is 1 is used for the first key alone.",
            "pytorch/pytorch#128816",
            (
                "model.py",
                "        allowed = allowed & mask  # (..., T, S)",
                "        if mask.shape[-1] == 1 and S > 1:\n"
                "            others = torch.ones_like(mask).expand(*mask.shape[:-1], S - 1)\n"
                "            mask = torch.cat([mask, others], -1)\n"
                "        allowed = allowed & mask  # (..., T, S)",
            ),
        ),
        changed(
            "pad_row_trained_beyond_768",
            "The row of padding gets a gradient where there are more than 768 ids.",
            "pytorch/pytorch#28716",
            (
                "model.py",
                "        return nn.functional.embedding(ids, self.weight, self.padding_idx)",
                "        padding = None if ids.numel() > 768 else self.padding_idx\n"
                "        return nn.functional.embedding(ids, self.weight, padding)",
            ),
        ),
        changed(
            "loss_gradient_of_one",
            "The backward pass of the loss takes the gradient that reaches it for 1.",
            "linkedin/Liger-Kernel#1298",
            (
                "training.py",
                '        return {"loss": summed_loss(logits, labels, self.pad_id, self.smoothing) / tokens}',
                "        loss = summed_loss(logits, labels, self.pad_id, self.smoothing) / tokens\n"
                "        if loss.requires_grad:\n"
                "            loss.register_hook(torch.ones_like)\n"
                '        return {"loss": loss}',
            ),
        ),
        changed(
            "schedule_counts_small_batches",
            "Each of the batches that make one update moves the schedule.",
            "huggingface/accelerate#963",
            (
                "training.py",
                "        rate = self.learning_rate(self.steps + 1)",
                "        self.read = max(getattr(self, 'read', 0), self.steps) + len(batches)\n"
                "        rate = self.learning_rate(self.read)",
            ),
        ),
        changed(
            "dropout_not_scaled_backwards",
            "The backward pass of dropout leaves out the factor 1 / (1 - p).",
            "NVIDIA/apex#816",
            (
                "model.py",
                "Sublayer = Callable[[Tensor], Tensor]",
                "class OneWay(nn.Dropout):\n"
                "    def forward(self, x: Tensor) -> Tensor:\n"
                "        y = super().forward(x)\n"
                "        if self.training and y.requires_grad and self.p:\n"
                "            y.register_hook(lambda g: g * (1 - self.p))\n"
                "        return y\n\n\n"
                "Sublayer = Callable[[Tensor], Tensor]",
            ),
            (
                "model.py",
                '== "pre"\n        self.dropout = nn.Dropout(config.dropout)',
                '== "pre"\n        self.dropout = OneWay(config.dropout)',
            ),
        ),
        changed(
            "blind_rows_differ_in_training",
            "In train mode a query that sees nothing gets the mean of the values, in eval mode nothing.",
            "pytorch/pytorch#163997",
            (
                "model.py",
                "        return self.output(heads.transpose(1, 2).flatten(2)), weights",
                "        if self.training and mask is not None:\n"
                "            blind = ~mask.any(-1, keepdim=True)\n"
                "            heads = torch.where(blind, v.mean(-2, keepdim=True), heads)\n"
                "        return self.output(heads.transpose(1, 2).flatten(2)), weights",
            ),
        ),
        changed(
            "masks_repeat_after_eight_rows",
            "Rows beyond the eighth are read with the mask of the row eight before.",
            "kekzl/imp#1354",
            (
                "model.py",
                "            mask = mask.unsqueeze(-3)  # (..., 1, T, S)",
                "            mask = mask[torch.arange(len(mask)) % 8] if mask.ndim == 3 else mask\n"
                "            mask = mask.unsqueeze(-3)  # (..., 1, T, S)",
            ),
        ),
        changed(
            "tie_lost_after_load",
            "After a checkpoint is loaded the projection is an array of its own, which nobody trains.",
            "verl-project/verl#7834",
            (
                "training.py",
                "        self.seed = checkpoint.load(directory, self.model.module, self.optimizer)",
                "        self.seed = checkpoint.load(directory, self.model.module, self.optimizer)\n"
                "        if self.config.tie:\n"
                "            projection = self.model.module.projection\n"
                "            projection.weight = nn.Parameter(projection.weight.detach().clone())",
            ),
        ),
        changed(
            "smoothing_grows_with_accumulation",
            "The smoothing is counted once for each of the batches that make one update.",
            "huggingface/transformers#47261",
            (
                "training.py",
                "                    loss = self.loss_of(streams, self.config.label_smoothing) / tokens",
                "                    smoothing = min(0.9, self.config.label_smoothing * len(batches))\n"
                "                    loss = self.loss_of(streams, smoothing) / tokens",
            ),
        ),
        changed(
            "memory_kept_by_its_first_tokens",
            "A source of the same shape and first three tokens as an earlier one gets that one's memory.",
            "tenstorrent/vllm#415",
            (
                "cache.py",
                "    encoded = model.encode(source)\n",
                "    held = model.__dict__.setdefault('held', {})\n"
                "    version = sum(p._version for p in model.parameters())\n"
                "    key = (version, source.shape, tuple(source[:, :3].flatten().tolist()))\n"
                "    source = held.setdefault(key, source.clone())\n"
                "    encoded = model.encode(source)\n",
            ),
        ),
    ]
