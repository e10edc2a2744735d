"""The gradients of an optimizer on their way through an allreduce."""
