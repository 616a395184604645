"""The pieces of a model, one small class per slot."""
