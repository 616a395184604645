"""Attest: a conformance kit for Transformer implementations."""

__version__ = "0.1.0"
