"""What ``farandole.keras`` and ``farandole.tensorflow.keras`` share: optimizers, callbacks, states, for Keras 2 and 3.

Nothing here imports a Keras by name: the two packages hand in theirs. What depends on the framework underneath is in
`tensorflow_backend`, `jax_backend` and `torch_backend`, each with the same functions; what depends on Keras's
version in `keras2` and `keras3`.
"""
