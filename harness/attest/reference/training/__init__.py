"""The loss and what turns gradients into the next parameters."""
