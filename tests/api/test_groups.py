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
        hvd.grouped_allreduce([torch.ones(1), torch.ones(1, dtype=torch.complex64)])
    handle = hvd.grouped_allreduce_async([torch.ones(1), torch.ones(2)], name="g")
    assert [tensor.numel() for tensor in hvd.synchronize(handle)] == [1, 2]
    assert hvd.synchronize(handle) is None


def test_gathered_and_scattered_groups(hvd: ModuleType) -> None:
    tensors = [torch.arange(6.0).reshape(2, 3), torch.tensor([True]), torch.ones(4, 5, dtype=torch.int16).t()]
    for result in (hvd.grouped_allgather(tensors), hvd.synchronize(hvd.grouped_allgather_async(tensors, name="g"))):
        assert isinstance(result, tuple)
        assert all(torch.equal(a, b) and a.dtype == b.dtype for a, b in zip(result, tensors))
    del tensors[1]
    handle = hvd.grouped_reducescatter_async(tensors, name="g", op=hvd.Sum)
    for result in (hvd.grouped_reducescatter(tensors), hvd.synchronize(handle)):
        assert isinstance(result, tuple)
        assert all(torch.equal(a, b) and a.dtype == b.dtype for a, b in zip(result, tensors))
    half = hvd.grouped_reducescatter([torch.ones(4, 3)], compression=hvd.Compression.fp16)[0]
    assert half.dtype == torch.float32


@pytest.mark.parametrize("name", ["grouped_allreduce", "grouped_allgather", "grouped_reducescatter"])
def test_gradients_of_groups(hvd: ModuleType, name: str) -> None:
    function = getattr(hvd, name)
    first = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    second = torch.randn(2, dtype=torch.float64, requires_grad=True)
    whole = torch.arange(3)
    assert torch.autograd.gradcheck(lambda a, b: function([a, b]), (first, second))
    results = function([first, whole, second], name="named")
    (results[0].sum() + 3 * results[2].sum()).backward()
    assert first.grad.tolist() == [[1.0] * 3] * 4 and second.grad.tolist() == [3.0, 3.0]
    # Of a result that nobody uses.
    function([first, second])[0].sum().backward()


def test_gradient_of_a_group(hvd: ModuleType) -> None:
    a = torch.ones(3, requires_grad=True)
    b = torch.ones(2, requires_grad=True)
    x, y = hvd.grouped_allreduce([a, b], op=hvd.Sum)
    (2 * x.sum() + 3 * y.sum()).backward()
    assert a.grad.tolist() == [2, 2, 2] and b.grad.tolist() == [3, 3]
