from __future__ import annotations

from types import ModuleType

import pytest
import torch


@pytest.mark.parametrize("op_name", ["Average", "Sum"])
def test_group_forms(hvd: ModuleType, op_name: str) -> None:
    op = getattr(hvd, op_name)
    tensors = [torch.arange(6.0).reshape(2, 3), torch.tensor(4, dtype=torch.int64), torch.ones(5).t()]
    expected = [tensor.clone() for tensor in tensors]
    for result in (
        hvd.grouped_allreduce(tensors, op=op),
        hvd.synchronize(hvd.grouped_allreduce_async(tensors, op=op, name="g")),
        hvd.grouped_allreduce_(tensors, op=op),
        hvd.synchronize(hvd.grouped_allreduce_async_(tensors, op=op)),
    ):
        assert isinstance(result, tuple)
        assert all(torch.equal(a, b) for a, b in zip(result, expected))
    assert result[0] is tensors[0]


def test_group_is_taken_whole_or_not_at_all(hvd: ModuleType) -> None:
    with pytest.raises(ValueError, match="at least one"):
        hvd.grouped_allreduce([])
    with pytest.raises(ValueError, match="not supported"):
        hvd.grouped_allreduce([torch.ones(1), torch.ones(1, dtype=torch.uint8)])
    handle = hvd.grouped_allreduce_async([torch.ones(1), torch.ones(2)], name="g")
    assert [tensor.numel() for tensor in hvd.synchronize(handle)] == [1, 2]
    assert hvd.synchronize(handle) is None


def test_gradient_of_a_group(hvd: ModuleType) -> None:
    a = torch.ones(3, requires_grad=True)
    b = torch.ones(2, requires_grad=True)
    x, y = hvd.grouped_allreduce([a, b], op=hvd.Sum)
    (2 * x.sum() + 3 * y.sum()).backward()
    assert a.grad.tolist() == [2, 2, 2] and b.grad.tolist() == [3, 3]
