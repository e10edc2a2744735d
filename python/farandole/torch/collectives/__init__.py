"""Collectives on tensors: asynchronous, in place, differentiable, compiled, one by one and in groups."""
