from __future__ import annotations

from types import ModuleType

import pytest
import torch

import farandole.torch


def test_join_alone(hvd: ModuleType) -> None:
    assert hvd.join() == 0
    assert hvd.allreduce(torch.ones(2)).tolist() == [1, 1]
    assert hvd.join() == 0


def test_sets_come_and_go(hvd: ModuleType) -> None:
    with pytest.raises(ValueError, match="exactly these ranks"):
        hvd.add_process_set([0])
    for bad in ([], [1], [0, 0], [-1]):
        with pytest.raises(ValueError, match="rank"):
            hvd.add_process_set(bad)
    assert hvd.remove_process_set(hvd.global_process_set) is False
    assert hvd.remove_process_set(hvd.ProcessSet([0])) is False
    assert (hvd.global_process_set.size(), hvd.global_process_set.rank()) == (1, 0)
    unknown = hvd.ProcessSet([0])
    unknown.process_set_id = 7
    with pytest.raises(ValueError, match="process set 7 does not exist"):
        unknown.size()
    with pytest.raises(ValueError, match="process set 7 does not exist"):
        hvd.allreduce(torch.ones(1), process_set=unknown)


def test_init_with_sets() -> None:
    hvd = farandole.torch
    with pytest.raises(ValueError, match="exactly these ranks"):
        hvd.init(process_sets=[hvd.ProcessSet([0])])
    assert not hvd.is_initialized()
    hvd.init(process_sets="dynamic")
    hvd.shutdown()
