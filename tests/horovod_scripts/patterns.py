"""Images in the shape of MNIST: noisy copies of ten patterns."""

from __future__ import annotations

import numpy as np


def load_data(part: int = 0) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Training and test images (n, 28, 28), uint8, and labels (n,), int64; other ones for each `part`."""

    def made(count: int, seed: list[int]) -> tuple[np.ndarray, np.ndarray]:
        random = np.random.default_rng(seed)
        labels = random.integers(0, 10, count)
        patterns = np.random.default_rng(0).integers(0, 128, (10, 28, 28))
        return (patterns[labels] + random.integers(0, 128, (count, 28, 28))).astype(np.uint8), labels

    return made(640, [1, part]), made(200, [2])
