from __future__ import annotations

import copy
import itertools
import random
from collections import Counter

import pytest
from torch.utils.data import DataLoader

from farandole.process import basics
from farandole.torch.elastic import ElasticSampler


class World:
    """Samplers of all ranks of a job whose size changes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, length: int, size: int, shuffle: bool = True) -> None:
        self._patch = monkeypatch
        self._place(0, size)
        self.samplers = [ElasticSampler(range(length), shuffle=shuffle, seed=5) for _ in range(size)]
        self.divide()

    def _place(self, rank: int, size: int) -> None:
        self._patch.setattr(basics, "rank", lambda: rank)
        self._patch.setattr(basics, "size", lambda: size)

    def divide(self) -> None:
        for rank, sampler in enumerate(self.samplers):
            self._place(rank, len(self.samplers))
            sampler.reset()

    def become(self, size: int) -> None:
        """Survivors stay, newcomers take over the position of rank 0."""
        position = self.samplers[0].state_dict()
        while len(self.samplers) > size:
            self.samplers.pop()
        while len(self.samplers) < size:
            self.samplers.append(copy.copy(self.samplers[0]))
        for rank, sampler in enumerate(self.samplers):
            self._place(rank, size)
            sampler.load_state_dict(position)

    def step(self, iterators: list, batch: int) -> list[list[int]]:
        """One batch on each rank, recorded."""
        batches = [list(itertools.islice(iterator, batch)) for iterator in iterators]
        for sampler in self.samplers:
            sampler.record_batch(0, batch)
        return batches


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 20])
@pytest.mark.parametrize("length", [0, 1, 2, 7, 24])
def test_parts_are_equal_and_cover_everything(monkeypatch: pytest.MonkeyPatch, length: int, size: int) -> None:
    world = World(monkeypatch, length, size)
    parts = [list(sampler) for sampler in world.samplers]
    assert {len(part) for part in parts} == {len(sampler) for sampler in world.samplers} == {-(-length // size)}
    counts = Counter(index for part in parts for index in part)
    assert set(counts) == set(range(length))
    assert sum(counts.values()) - length == world.samplers[0].total_size - length < size


def test_orders(monkeypatch: pytest.MonkeyPatch) -> None:
    (plain,) = World(monkeypatch, 10, 1, shuffle=False).samplers
    assert list(plain) == list(range(10))
    (sampler,) = World(monkeypatch, 100, 1).samplers
    first = list(sampler)
    assert sorted(first) == list(range(100)) and first != list(range(100)) and first == list(sampler)
    sampler.set_epoch(1)
    assert sorted(sampler) == list(range(100)) and list(sampler) != first


def test_only_real_samples_count_as_processed(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, 10, 3)
    (sampler, *_) = world.samplers
    sampler.record_batch(0, 3)
    assert sampler.processed_num == 9
    # A tenth sample, and two that fill up.
    sampler.record_batch(1, 3)
    assert sampler.processed_num == 10
    sampler.reset()
    assert len(sampler) == 0 and list(sampler) == []
    sampler.set_epoch(1)
    assert sampler.processed_num == 0 and len(sampler) == 4


def test_state_dict(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, 10, 2)
    first, second = world.samplers
    first.set_epoch(3)
    first.record_batch(0, 2)
    assert first.state_dict() == {"epoch": 3, "processed_num": 4}
    second.load_state_dict(first.state_dict())
    assert (second.epoch, second.processed_num, second.num_samples, second.total_size) == (3, 4, 3, 6)
    world.divide()
    assert sorted([*first, *second]) == sorted(first.remaining_indices)


def test_with_a_data_loader(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, 10, 2)
    loaders = [DataLoader(range(10), batch_size=3, sampler=sampler) for sampler in world.samplers]
    assert sorted(int(i) for loader in loaders for batch in loader for i in batch) == list(range(10))


def check_history(monkeypatch: pytest.MonkeyPatch, chance: random.Random) -> None:
    length, batch = chance.randrange(1, 60), chance.randrange(1, 5)
    world = World(monkeypatch, length, chance.randrange(1, 6))
    done: Counter = Counter()
    filled = 0
    while world.samplers[0].processed_num < length:
        iterators = [iter(sampler) for sampler in world.samplers]
        left = len(world.samplers[0].remaining_indices)
        steps = -(-len(world.samplers[0]) // batch)
        for step in range(chance.randrange(0, steps + 1)):
            before = world.samplers[0].state_dict()
            batches = world.step(iterators, batch)
            if chance.random() < 0.2:
                # A worker is lost: this step is undone.
                for sampler in world.samplers:
                    sampler.load_state_dict(before)
                break
            done.update(index for part in batches for index in part)
            filled += world.samplers[0].total_size - left if step == steps - 1 else 0
        world.become(chance.randrange(1, 6))
    assert set(done) == set(range(length))
    assert sum(done.values()) == length + filled


def test_any_history_of_memberships(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each sample is processed, and none twice but those that fill up the last batches of a division."""
    for seed in range(300):
        try:
            check_history(monkeypatch, random.Random(seed))
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
