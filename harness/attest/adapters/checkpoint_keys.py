"""What in a checkpoint changes no number of a forward pass, and may be read over.

Any other key of config.json that a family does not name, and that is not unset, is refused by name: it may
say another model. The same holds for tensors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import count
from typing import Any

from attest.contract.config import default_of

PASSIVE = frozenset(
    """
    model_type architectures transformers_version _name_or_path auto_map tokenizer_class dtype torch_dtype
    attn_implementation use_cache return_dict gradient_checkpointing output_past is_encoder_decoder
    initializer_range initializer_factor classifier_dropout task_specific_params finetuning_task
    id2label label2id bos_token_id eos_token_id pad_token_id sep_token_id cls_token_id unk_token_id
    mask_token_id decoder_start_token_id tie_word_embeddings directionality
    n_ctx seq_length max_window_layers pretraining_tp slow_but_exact offset_alibi masked_softmax_fusion
    bias_dropout_fusion skip_bias_add skip_bias_add_qkv attention_softmax_in_fp32
    summary_activation summary_first_dropout summary_proj_to_labels summary_type summary_use_proj
    """.split()  # noqa: SIM905
)
# Keys with the one value that says nothing new.
PLAIN = {"layer_types": "full_attention", "position_embedding_type": "absolute"}
# Tensors that are no parameters: tables and masks of old versions, copies of tied ones, heads of other tasks.
BUFFERS = re.compile(
    r"(rotary_emb\.inv_freq|attn\.(masked_)?bias|attention\.(masked_)?bias|position_ids|"
    r"\.embed_tokens\.weight|cls\.predictions\.decoder\.(weight|bias)|pooler\.dense\.\w+|"
    r"cls\.seq_relationship\.\w+)$"
)


def says_nothing(key: str, value: Any) -> bool:
    """Whether a key with this value leaves the model as it is. An unset one does."""
    if not value or key in PASSIVE:
        return True
    values = value if isinstance(value, list) else [value]
    return key in PLAIN and all(v == PLAIN[key] for v in values)


def apart(read: Mapping[str, Any]) -> dict[str, Any]:
    """Special ids that differ, as a config of ours has them: one that is taken already moves to a free one.

    GPT-2 begins and ends with the same token. A model reads its padding alone, which stays where it is.
    """
    given = {own: read.get(own, default_of(own)) for own in ("pad_id", "eos_id", "bos_id")}
    found: dict[str, Any] = {}
    for own, value in given.items():
        taken = {*found.values()}
        free = (i for i in count() if i not in taken and i not in given.values())
        found[own] = next(free) if value in taken and value is not None else value
    return found
