"""Canonical names to those of torch.nn's modules."""

from attest.contract import Config

Names = dict[str, str]


def multi_head(config: Config, prefix: str = "", own: str = "") -> Names:
    names = {}
    for kind in _kinds(config):
        for i, part in enumerate(("query", "key", "value")):
            names[f"{prefix}{part}.{kind}"] = f"{own}in_proj_{kind}[{i}/3]"
        names[f"{prefix}output.{kind}"] = f"{own}out_proj.{kind}"
    return names


def encoder_layer(config: Config, prefix: str = "", own: str = "") -> Names:
    return {
        **multi_head(config, f"{prefix}self_attention.", f"{own}self_attn."),
        **_feed_forward_and_norms(config, prefix, own, 2),
    }


def decoder_layer(config: Config, prefix: str = "", own: str = "") -> Names:
    return {
        **multi_head(config, f"{prefix}self_attention.", f"{own}self_attn."),
        **multi_head(config, f"{prefix}cross_attention.", f"{own}multihead_attn."),
        **_feed_forward_and_norms(config, prefix, own, 3),
    }


def encoder(config: Config, prefix: str = "", own: str = "") -> Names:
    names: Names = {}
    for i in range(config.num_encoder_layers):
        names |= encoder_layer(config, f"{prefix}{i}.", f"{own}layers.{i}.")
    return names | _final_norm(config, prefix, own)


def decoder(config: Config, prefix: str = "", own: str = "") -> Names:
    names: Names = {}
    for i in range(config.num_decoder_layers):
        names |= decoder_layer(config, f"{prefix}{i}.", f"{own}layers.{i}.")
    return names | _final_norm(config, prefix, own)


def transformer(config: Config) -> Names:
    return {
        **encoder(config, "encoder.", "transformer.encoder."),
        **decoder(config, "decoder.", "transformer.decoder."),
    }


def sequential(config: Config) -> Names:
    """Of nn.Sequential(Linear, activation, Linear)."""
    return _linears(config, "", "", (("inner", "0"), ("outer", "2")))


def _linears(config: Config, prefix: str, own: str, pairs: tuple[tuple[str, str], ...]) -> Names:
    return {f"{prefix}{a}.{kind}": f"{own}{b}.{kind}" for a, b in pairs for kind in _kinds(config)}


def _feed_forward_and_norms(config: Config, prefix: str, own: str, norms: int) -> Names:
    names = _linears(config, f"{prefix}feed_forward.", own, (("inner", "linear1"), ("outer", "linear2")))
    for i in range(norms):
        names |= {f"{prefix}norm{i}.{kind}": f"{own}norm{i + 1}.{kind}" for kind in ("weight", "bias")}
    return names


def _final_norm(config: Config, prefix: str, own: str) -> Names:
    if config.norm != "pre":
        return {}
    return {f"{prefix}norm.{kind}": f"{own}norm.{kind}" for kind in ("weight", "bias")}


def _kinds(config: Config) -> tuple[str, ...]:
    return ("weight", "bias") if config.bias else ("weight",)
