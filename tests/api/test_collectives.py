from __future__ import annotations

from types import ModuleType

import pytest
import torch

from farandole import exceptions

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
REDUCIBLE = [*FLOATS, torch.int32, torch.int64, torch.uint8, torch.int8, torch.int16]
# torch gained it in 2.3.
REDUCIBLE += [torch.uint16] if hasattr(torch, "uint16") else []
MOVABLE = [*REDUCIBLE, torch.bool]


def values(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    count = int(torch.Size(shape).numel())
    negative = dtype.is_signed and dtype is not torch.bool
    return (torch.arange(count) * 7 % 23 - 5 * negative).reshape(shape).to(dtype)


@pytest.mark.parametrize("op_name", ["Average", "Sum"])
@pytest.mark.parametrize("dtype", REDUCIBLE)
def test_allreduce_forms(hvd: ModuleType, dtype: torch.dtype, op_name: str) -> None:
    op = getattr(hvd, op_name)
    expected = values(dtype, 3, 5)
    tensor = values(dtype, 3, 5)
    result = hvd.allreduce(tensor, op=op)
    assert result.dtype == dtype and torch.equal(result, expected) and result.data_ptr() != tensor.data_ptr()
    handle = hvd.allreduce_async(tensor, name="a", op=op)
    assert torch.equal(hvd.synchronize(handle), expected)
    assert hvd.allreduce_(tensor, name="a", op=op) is tensor
    assert hvd.synchronize(hvd.allreduce_async_(tensor, name="a", op=op)) is tensor
    assert torch.equal(tensor, expected)


@pytest.mark.parametrize("dtype", REDUCIBLE)
def test_allreduce_scales(hvd: ModuleType, dtype: torch.dtype) -> None:
    tensor = values(dtype, 40)
    result = hvd.allreduce(tensor, op=hvd.Sum, prescale_factor=0.5, postscale_factor=3)
    if dtype.is_floating_point:
        expected = (tensor * 0.5) * 3
    else:
        # In double precision, truncated toward zero after each factor.
        expected = ((tensor.to(torch.int64).double() * 0.5).trunc() * 3).trunc().to(dtype)
    assert torch.equal(result, expected)


def test_results_lie_where_tensors_do(hvd: ModuleType) -> None:
    """Whatever torch's default device is, which a script may have set; of "meta" tensors have no values."""
    tensor = values(torch.float32, 4, 2).requires_grad_()
    sparse = tensor.detach().to_sparse()
    ones = torch.ones(4, 2)
    torch.set_default_device("meta")
    try:
        results = [hvd.allreduce(tensor), hvd.allgather(tensor), hvd.reducescatter(tensor), hvd.broadcast(tensor, 0)]
        results += [hvd.alltoall(tensor), hvd.alltoall(tensor, [4])[0], *hvd.grouped_allgather([tensor])]
        results.append(hvd.sparse_allreduce_async(sparse, "s", hvd.Sum)().to_dense())
        assert all(result.is_cpu and torch.equal(result, tensor) for result in results)
        (hvd.allgather(tensor) + hvd.grouped_allgather([tensor])[0] + hvd.alltoall(tensor, [4])[0]).sum().backward()
        assert torch.equal(tensor.grad, 3 * ones)
    finally:
        torch.set_default_device(None)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (100003,)])
def test_shapes(hvd: ModuleType, shape: tuple[int, ...]) -> None:
    tensor = values(torch.float32, *shape)
    assert torch.equal(hvd.allreduce(tensor), tensor)
    assert torch.equal(hvd.broadcast(tensor, 0), tensor)
    if shape:
        assert torch.equal(hvd.allgather(tensor), tensor)


@pytest.mark.parametrize("dtype", MOVABLE)
def test_allgather_and_broadcast(hvd: ModuleType, dtype: torch.dtype) -> None:
    tensor = values(dtype, 4, 3)
    expected = tensor.clone()
    assert torch.equal(hvd.allgather(tensor), expected)
    assert torch.equal(hvd.synchronize(hvd.allgather_async(tensor, name="g")), expected)
    result = hvd.broadcast(tensor, root_rank=0)
    assert torch.equal(result, expected) and result.data_ptr() != tensor.data_ptr()
    assert torch.equal(hvd.synchronize(hvd.broadcast_async(tensor, 0, name="b")), expected)
    assert hvd.broadcast_(tensor, 0) is tensor
    assert hvd.synchronize(hvd.broadcast_async_(tensor, 0, name="b")) is tensor
    assert torch.equal(tensor, expected)


def test_tensors_that_are_not_contiguous(hvd: ModuleType) -> None:
    base = values(torch.float32, 4, 6)
    for view in (base.t(), base[:, ::2], base[1:, 1:], base[0].expand(3, 6)):
        expected = view.clone() * 2
        assert torch.equal(hvd.allreduce(view, op=hvd.Sum, postscale_factor=2), expected)
        assert torch.equal(hvd.allgather(view), view)
        assert torch.equal(hvd.broadcast(view, 0), view)
    doubled = base.clone()
    doubled[:, ::2] *= 2
    hvd.allreduce_(base[:, ::2], op=hvd.Sum, postscale_factor=2)
    assert torch.equal(base, doubled)


def test_lazily_negated_tensors(hvd: ModuleType) -> None:
    view = torch.tensor([1 + 2j, 3 - 4j]).conj().imag
    assert view.is_neg()
    assert hvd.allreduce(view).tolist() == [-2, 4]
    assert hvd.allreduce_(view).tolist() == [-2, 4]


def test_average_is_deprecated(hvd: ModuleType) -> None:
    with pytest.warns(DeprecationWarning, match="average"):
        assert hvd.allreduce(torch.ones(1), average=False).item() == 1
    with pytest.raises(ValueError, match="only one"):
        hvd.allreduce(torch.ones(1), average=True, op=hvd.Sum)


def test_adasum(hvd: ModuleType) -> None:
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        tensor = torch.tensor([3.0, -4.0], dtype=dtype)
        assert hvd.allreduce(tensor, op=hvd.Adasum, prescale_factor=2.0).tolist() == [6.0, -8.0]
        assert hvd.grouped_allreduce([tensor, tensor * 2], op=hvd.Adasum)[1].tolist() == [6.0, -8.0]


@pytest.mark.parametrize("dtype", MOVABLE)
def test_what_no_collective_combines_is_the_librarys_error(hvd: ModuleType, dtype: torch.dtype) -> None:
    tensor = torch.ones(2, dtype=dtype)
    for op in (hvd.Adasum, hvd.Min, hvd.Max, hvd.Product):
        # A RuntimeError, as in Horovod.
        with pytest.raises(exceptions.HorovodInternalError, match="reducescatter does not take") as raised:
            hvd.reducescatter(tensor, op=op)
        assert isinstance(raised.value, exceptions.UnsupportedOperationError)
        with pytest.raises(exceptions.UnsupportedOperationError, match="reducescatter does not take"):
            hvd.grouped_reducescatter([tensor], op=op)
    if not dtype.is_floating_point:
        with pytest.raises(exceptions.UnsupportedOperationError, match="floating-point"):
            hvd.allreduce(tensor, op=hvd.Adasum)


@pytest.mark.parametrize("op_name", ["Min", "Max", "Product"])
def test_other_operations(hvd: ModuleType, op_name: str) -> None:
    tensor = torch.tensor([3.0, -4.0])
    result = hvd.allreduce(tensor, op=getattr(hvd, op_name), prescale_factor=2.0, postscale_factor=0.5)
    assert result.tolist() == [3.0, -4.0]
    with pytest.raises(ValueError, match="optimizer"):
        parameter = torch.nn.Parameter(tensor)
        hvd.DistributedOptimizer(torch.optim.SGD([parameter], lr=1), [("p", parameter)], op=getattr(hvd, op_name))


def test_bad_arguments(hvd: ModuleType) -> None:
    bad = [
        lambda: hvd.allreduce(torch.ones(1), op=17),
        lambda: hvd.allreduce(torch.ones(1), name=3),
        lambda: hvd.allreduce_async([1.0]),
        lambda: hvd.allreduce_async_(torch.ones(1, dtype=torch.complex64)),
        lambda: hvd.allreduce(torch.ones(2, 2).to_sparse()),
        lambda: hvd.allgather(torch.tensor(1.0)),
        lambda: hvd.allgather(torch.ones(1, dtype=torch.complex128)),
        lambda: hvd.broadcast(torch.ones(1), root_rank=1),
        lambda: hvd.broadcast(torch.ones(1), root_rank=-1),
        lambda: hvd.broadcast_parameters((p for p in []), 0),
        lambda: hvd.broadcast_parameters({"a": 3}, 0),
    ]
    for call in bad:
        with pytest.raises(ValueError):
            call()
    with pytest.raises(ValueError, match=r"Tensor type torch\.complex64 is not supported"):
        hvd.allreduce_(torch.ones(1, dtype=torch.complex64))
    # Nothing of it stays behind.
    assert hvd.allreduce(torch.ones(1)).item() == 1


def test_handles(hvd: ModuleType) -> None:
    handle = hvd.allreduce_async(torch.ones(2), name="h")
    assert isinstance(handle, int)
    assert hvd.poll(handle) in (True, False)
    assert hvd.synchronize(handle).tolist() == [1, 1]
    assert hvd.synchronize(handle) is None
    with pytest.raises(ValueError, match="already"):
        hvd.poll(handle)
    for never in (0, -1, handle + 1000, "x"):
        with pytest.raises(ValueError, match="not given out"):
            hvd.poll(never)
    # As Horovod's: there is nothing to wait for.
    assert [hvd.synchronize(never) for never in (0, -1, handle + 1000)] == [None] * 3
    with pytest.raises(ValueError, match="not given out"):
        hvd.synchronize("x")


def test_many_operations_at_once(hvd: ModuleType) -> None:
    tensors = [torch.full((17,), float(i)) for i in range(500)]
    handles = [hvd.allreduce_async(tensor, name=f"t{i}") for i, tensor in enumerate(tensors)]
    for i, handle in reversed(list(enumerate(handles))):
        assert torch.equal(hvd.synchronize(handle), tensors[i])


def test_operations_keep_tensors_alive(hvd: ModuleType) -> None:
    handles = [hvd.allreduce_async(torch.full((10000,), float(i))) for i in range(50)]
    for i, handle in enumerate(handles):
        assert (hvd.synchronize(handle) == i).all()


def test_handles_of_before_shutdown_are_forgotten(hvd: ModuleType) -> None:
    handle = hvd.allreduce_async(torch.ones(2))
    hvd.shutdown()
    with pytest.raises(hvd.HorovodInternalError, match="shut down before"):
        hvd.synchronize(handle)
    hvd.init()
    assert hvd.allreduce(torch.ones(2)).tolist() == [1, 1]


def test_gradients(hvd: ModuleType) -> None:
    tensor = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    calls = [
        lambda x: hvd.allreduce(x, op=hvd.Sum, prescale_factor=2.0, postscale_factor=0.25),
        lambda x: hvd.allreduce(x, name="named"),
        lambda x: hvd.allgather(x),
        lambda x: hvd.allgather(x, name="named"),
        lambda x: hvd.broadcast(x, root_rank=0),
        lambda x: hvd.alltoall(x),
        lambda x: hvd.reducescatter(x, op=hvd.Sum, prescale_factor=2.0),
    ]
    for call in calls:
        assert torch.autograd.gradcheck(call, (tensor,))
    assert not hvd.synchronize(hvd.allreduce_async(tensor)).requires_grad


def test_compression(hvd: ModuleType) -> None:
    tensor = torch.tensor([1.0001, 70000.0, -2.5])
    result = hvd.allreduce(tensor, compression=hvd.Compression.fp16)
    assert result.dtype == torch.float32
    assert torch.equal(result, tensor.half().float())
    integers = torch.tensor([1 << 40])
    assert torch.equal(hvd.allreduce(integers, compression=hvd.Compression.fp16), integers)
    sent, context = hvd.Compression.none.compress(tensor)
    assert sent is tensor and hvd.Compression.none.decompress(sent, context) is tensor
    leaf = torch.ones(3, requires_grad=True)
    hvd.allreduce(leaf, compression=hvd.Compression.fp16).sum().backward()
    assert leaf.grad.tolist() == [1, 1, 1] and leaf.grad.dtype == torch.float32


def test_compression_to_bfloat16(hvd: ModuleType) -> None:
    tensor = torch.tensor([1.0001, 1e38, -2.5])
    result = hvd.allreduce(tensor, compression=hvd.Compression.bf16)
    assert result.dtype == torch.float32 and torch.equal(result, tensor.bfloat16().float())
    integers = torch.tensor([1 << 40])
    assert torch.equal(hvd.reducescatter(integers, compression=hvd.Compression.bf16), integers)


def test_truth_values(hvd: ModuleType) -> None:
    tensor = torch.tensor([True, False])
    for op in (hvd.Sum, hvd.Max, hvd.Min, hvd.Product):
        assert torch.equal(hvd.allreduce(tensor, op=op), tensor)
    assert torch.equal(hvd.reducescatter(tensor, op=hvd.Sum), tensor)
    with pytest.raises(ValueError, match="truth values have no average"):
        hvd.allreduce(tensor)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_sparse_allreduce(hvd: ModuleType, dtype: torch.dtype) -> None:
    for shape in ((4, 5), (3,), (2, 3, 2)):
        dense = (values(dtype, *shape).abs() % 3).to(dtype)
        op = hvd.Average if dtype.is_floating_point else hvd.Sum
        handle = hvd.sparse_allreduce_async(dense.to_sparse(), "s", op)
        assert callable(handle) and hvd.poll(handle) in (True, False)
        result = handle()
        assert result.is_sparse and result.dtype == dtype and torch.equal(result.to_dense(), dense)
        assert handle() is None
    rows = torch.sparse_coo_tensor([[1, 1]], torch.ones(2, 3), (4, 3))  # the same row twice, dense inside
    assert hvd.synchronize(hvd.sparse_allreduce_async(rows, None, hvd.Sum)).to_dense()[1].tolist() == [2, 2, 2]
    nothing = torch.sparse_coo_tensor(torch.empty(2, 0), [], (4, 3))
    assert hvd.sparse_allreduce_async(nothing, "n", hvd.Average)().to_dense().sum() == 0


def test_alltoall_of_one(hvd: ModuleType) -> None:
    tensor = torch.arange(6.0).reshape(3, 2).requires_grad_()
    assert torch.equal(hvd.alltoall(tensor), tensor)
    received, splits = hvd.alltoall(tensor, splits=[2])
    assert torch.equal(received, tensor[:2]) and splits.tolist() == [2] and splits.dtype == torch.int32
    received.sum().backward()
    assert tensor.grad.tolist() == [[1, 1], [1, 1], [0, 0]]


def test_empty_splits_are_even_ones(hvd: ModuleType) -> None:
    """As in Horovod; and the result has the received numbers of rows."""
    tensor = torch.ones(3, 2, requires_grad=True)
    for splits in ([], torch.empty(0, dtype=torch.int32)):
        result, received = hvd.alltoall(tensor, splits=splits)
        assert torch.equal(result, tensor) and received.tolist() == [3]
    result.sum().backward()
    assert tensor.grad.tolist() == [[1, 1]] * 3


def test_gradient_of_rows_that_go_nowhere(hvd: ModuleType) -> None:
    for sent in (0, 2):
        tensor = torch.ones(3, 2, requires_grad=True)
        hvd.alltoall(tensor, splits=[sent])[0].sum().backward()
        assert tensor.grad.sum(1).tolist() == [2.0] * sent + [0.0] * (3 - sent)


@pytest.mark.parametrize(
    "splits", [[1, 2], [4], [-1], [[1]], torch.tensor([1.0]), torch.tensor([True]), torch.empty(0)]
)
def test_bad_splits(hvd: ModuleType, splits: object) -> None:
    with pytest.raises(ValueError, match="splits"):
        hvd.alltoall(torch.ones(3, 2), splits=splits)


def test_reducescatter_of_one(hvd: ModuleType) -> None:
    tensor = torch.arange(6).reshape(3, 2)
    assert torch.equal(hvd.reducescatter(tensor), tensor)
    handle = hvd.reducescatter_async(tensor, op=hvd.Sum, prescale_factor=3.0, postscale_factor=0.5)
    assert torch.equal(hvd.synchronize(handle), torch.tensor([[0, 1], [3, 4], [6, 7]]))
    half = hvd.reducescatter(torch.ones(4, 3), compression=hvd.Compression.fp16)
    assert half.dtype == torch.float32 and half.shape == (4, 3)
    with pytest.raises(ValueError, match="average and sum"):
        hvd.reducescatter(tensor, op=hvd.Min)


@pytest.mark.parametrize("name", ["alltoall", "reducescatter", "allgather"])
def test_scalars_have_no_rows(hvd: ModuleType, name: str) -> None:
    with pytest.raises(ValueError, match="at least one dimension"):
        getattr(hvd, name)(torch.tensor(1.0))
