"""Questions that scripts for Horovod ask its front end for TensorFlow."""

from __future__ import annotations

import tensorflow as tf


def gpu_available(ext_base_name: str, verbose: bool = False) -> bool:
    """Whether TensorFlow sees a GPU.

    Args:
        ext_base_name, verbose: not used; Horovod has them.
    """
    return bool(tf.config.list_physical_devices("GPU"))


def check_num_rank_power_of_2(num_rank: int) -> bool:
    """Whether it is 1, 2, 4 and so on. Adasum takes any number of ranks here."""
    return num_rank > 0 and num_rank & (num_rank - 1) == 0
