"""Decoding with a cache, sampling and ranking."""
