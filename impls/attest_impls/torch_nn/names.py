"""Canonical names to those of torch.nn's modules."""

from attest.contract import Config

Names = dict[str, str]


def multi_head(config: Config, prefix: str = "", own: str = "") -> Names:
    kinds = ("weight", "bias") if config.bias else ("weight",)
    names = {}
    for kind in kinds:
        for i, part in enumerate(("query", "key", "value")):
            names[f"{prefix}{part}.{kind}"] = f"{own}in_proj_{kind}[{i}/3]"
        names[f"{prefix}output.{kind}"] = f"{own}out_proj.{kind}"
    return names
