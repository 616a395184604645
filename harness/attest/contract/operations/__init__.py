"""The operations of the contract, one record each, by topic. Importing this package registers them.

The order of the imports is the order in which operations are listed.
"""

from attest.contract.operations import attention  # isort: skip
from attest.contract.operations import embeddings  # isort: skip
from attest.contract.operations import layers  # isort: skip
from attest.contract.operations import training  # isort: skip
from attest.contract.operations import generation  # isort: skip
from attest.contract.operations import positions  # isort: skip
from attest.contract.operations import self_attention  # isort: skip
from attest.contract.operations import attention_variants  # isort: skip
from attest.contract.operations import models  # isort: skip
from attest.contract.operations import masking  # isort: skip
from attest.contract.operations import first_principles  # isort: skip

__all__ = [
    "attention",
    "attention_variants",
    "embeddings",
    "first_principles",
    "generation",
    "layers",
    "masking",
    "models",
    "positions",
    "self_attention",
    "training",
]
