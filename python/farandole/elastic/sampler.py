"""A sampler that divides what is left of an epoch among the workers that there are."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sized
from typing import Any

from farandole.process import basics


class ElasticSampler:
    """Gives each worker its part of the samples that the epoch has not processed yet, as an iterable of indices.

    The order of an epoch depends on `seed` and the epoch only. The workers take from it in turns, so that after the
    same number of batches on each the processed samples are its first ones; `record_batch` counts them. What is left
    is filled up from its beginning to a multiple of the number of workers, so that all have equally many.

    As part of a state it is committed, restored and synchronised, and divided again when the workers change.

    Args:
        dataset: anything with a length.
        shuffle: whether the order is random, differently in each epoch.
        seed: the same on all workers.

    Attributes:
        epoch, processed_num: the position: samples of the epoch that are done, by all workers together.
        num_replicas, rank: of the workers when the rest was divided last.
        remaining_indices: what was left then.
        num_samples: how many of them each worker gets, and total_size: all workers together.

    Raises:
        ValueError: not initialised.
    """

    def __init__(self, dataset: Sized, shuffle: bool = True, seed: int = 0) -> None:
        self.dataset = dataset
        self.shuffle = shuffle
        self.seed = seed
        self.epoch = 0
        self.processed_num = 0
        self.num_replicas = 0
        self.rank = 0
        self.remaining_indices: list[int] = []
        self.num_samples = 0
        self.total_size = 0
        self.reset()

    def set_epoch(self, epoch: int) -> None:
        """Begins an epoch: nothing of it is processed. Call it at the end of the one before, not at the beginning: one
        that was interrupted would begin again."""
        self.epoch = epoch
        self.processed_num = 0
        self.reset()

    def record_batch(self, batch_idx: int, batch_size: int) -> None:
        """Counts a batch that every worker has processed.

        Args:
            batch_idx: not used; Horovod has it.
            batch_size: samples of the batch on each worker. A last batch may be counted as if it was full; samples that
                only fill up are never counted.
        """
        self.processed_num = min(len(self.dataset), self.processed_num + batch_size * self.num_replicas)

    def state_dict(self) -> dict[str, Any]:
        """The position: epoch and processed_num."""
        return {"epoch": self.epoch, "processed_num": self.processed_num}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes to a position, and divides what is left from there."""
        self.epoch = state_dict["epoch"]
        self.processed_num = state_dict["processed_num"]
        self.reset()

    def reset(self) -> None:
        """Divides what is left among the present workers. Iterators that exist already do not change."""
        self.num_replicas = basics.size()
        self.rank = basics.rank()
        indices = list(range(len(self.dataset)))
        if self.shuffle:
            random.Random(self.seed + self.epoch).shuffle(indices)
        self.remaining_indices = indices[self.processed_num :]
        self.num_samples = -(-len(self.remaining_indices) // self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas

    def __iter__(self) -> Iterator[int]:
        left = len(self.remaining_indices)
        return iter([self.remaining_indices[at % left] for at in range(self.rank, self.total_size, self.num_replicas)])

    def __len__(self) -> int:
        return self.num_samples
