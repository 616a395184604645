"""Families of models as data: what a family fixes, leaves free and offers, and its names of parameters.

Each is a file in `spec/families`. An implementation that declares `families = ("llama",)` claims the configs
of that file and nothing else.
"""

from attest.families.family import Family, HuggingFaceNames
from attest.families.reading import FamilyError, families, family_named, read_family

__all__ = ["Family", "FamilyError", "HuggingFaceNames", "families", "family_named", "read_family"]
