"""What torch's own modules are known to do otherwise, each with a case that shows it."""

from attest.contract import KnownFailure

KNOWN_FAILURES = (
    KnownFailure(
        "M4.6a",
        "nn.TransformerEncoder and nn.TransformerDecoder copy one layer N times, weights included",
        "https://github.com/pytorch/pytorch/issues/86274",
        "layer[part=encoder D=8 H=2 F=16 N=3]",
    ),
    KnownFailure(
        "M4.13",
        "nn.Linear starts with random biases and a variance that depends on fan_in alone",
        "https://github.com/pytorch/pytorch/issues/1667",
        "layer[part=encoder_layer D=64 H=4 F=256]",
    ),
)
