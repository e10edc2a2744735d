"""Every collective of farandole.jax against numpy: outside of compiled functions, inside of them, and under grad and
vmap. Prints what it has checked."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import random_calls

import farandole.jax as hvd

jax.config.update("jax_enable_x64", True)

FLOATS = [jnp.float16, jnp.bfloat16, jnp.float32, jnp.float64]
INTEGERS = [jnp.uint8, jnp.int8, jnp.uint16, jnp.int16, jnp.int32, jnp.int64]
SHAPES = [(), (1,), (5,), (3, 4), (0, 3), (2, 0), (2, 3, 4)]
OPS = {"Sum": hvd.Sum, "Average": hvd.Average, "Min": hvd.Min, "Max": hvd.Max, "Product": hvd.Product}
REDUCED = {"Sum": np.sum, "Average": np.mean, "Min": np.min, "Max": np.max, "Product": np.prod}


def values(rank: int, shape: tuple[int, ...], dtype: object, seed: str = "") -> np.ndarray:
    """What `rank` gives: small whole numbers, so that every order of summation is exact."""
    random = np.random.default_rng([rank, zlib.crc32(f"{shape} {np.dtype(dtype)} {seed}".encode())])
    return random.integers(0, 4, shape).astype(dtype)


def everyone(shape: tuple[int, ...], dtype: object, seed: str = "") -> list[np.ndarray]:
    return [values(rank, shape, dtype, seed) for rank in range(hvd.size())]


def mine(shape: tuple[int, ...], dtype: object, seed: str = "") -> jax.Array:
    return jnp.asarray(values(hvd.rank(), shape, dtype, seed))


def same(got: jax.Array, wanted: np.ndarray, what: object) -> None:
    wanted = np.asarray(wanted)
    assert isinstance(got, jax.Array), what
    assert got.shape == wanted.shape and got.dtype == wanted.dtype, (what, got.shape, wanted.shape, got.dtype)
    assert np.array_equal(np.asarray(got), wanted), (what, got, wanted)


# By what a collective is called.
WAYS = {"at once": lambda function: function, "compiled": jax.jit}


def check(function: Callable[[Any], Any], given: list[jax.Array], wanted: list[np.ndarray], what: object) -> None:
    """Of each array outside of compiled functions, and of all together in one."""
    for got, each in zip(map(function, given), wanted):
        same(got, each, what)
    for got, each in zip(jax.jit(function)(given), wanted):
        same(got, each, what)


def case_allreduce() -> None:
    for name, op in OPS.items():
        # Thirds are not exact.
        types = FLOATS if name == "Average" else FLOATS + INTEGERS
        factor = 3 if name == "Average" and hvd.size() == 3 else 1
        places = [(shape, dtype) for dtype in types for shape in SHAPES]
        given = [factor * mine(*place) for place in places]
        every = [factor * np.stack(everyone(*place)).astype(np.float64) for place in places]
        wanted = [REDUCED[name](each, axis=0).astype(dtype) for each, (_, dtype) in zip(every, places)]
        check(lambda x, op=op: hvd.allreduce(x, op, name="x"), given, wanted, name)


def case_allreduce_of_trees() -> None:
    for wrap in WAYS.values():
        tree = {"b": [mine((3,), jnp.float32), mine((2, 2), jnp.int32)], "a": mine((), jnp.float64)}
        got = wrap(lambda t: hvd.allreduce(t, hvd.Sum, prescale_factor=2.0))(tree)
        assert list(got) == ["a", "b"] and isinstance(got["b"], list)
        same(got["a"], 2 * np.sum(everyone((), jnp.float64), axis=0), "a")
        same(got["b"][0], 2 * np.sum(everyone((3,), jnp.float32), axis=0), "b")
        same(got["b"][1], np.sum(everyone((2, 2), jnp.int32), axis=0, dtype=np.int32) * 2, "b")
        assert wrap(hvd.allreduce)({"nothing": []}) == {"nothing": []}


def case_small_and_large_arrays_of_one_tree() -> None:
    """Small ones travel laid into one for each type, large ones as they are; the results say nothing of that."""
    shapes = {"a": (2, 3), "b": (), "large": (1 << 16, 2), "c": (0, 4), "d": (5,), "last": (1 << 17,)}
    types = [jnp.float32, jnp.float64, jnp.int32, jnp.float16]
    for wrap in WAYS.values():
        for op in (hvd.Sum, hvd.Max):
            tree = {f"{name}{i}": mine(shape, t) for name, shape in shapes.items() for i, t in enumerate(types)}
            got = wrap(lambda t, op=op: hvd.allreduce(t, op, name="mixed"))(tree)
            assert list(got) == sorted(tree)
            for name, shape in shapes.items():
                for i, dtype in enumerate(types):
                    every = np.stack(everyone(shape, dtype))
                    reduced = every.max(0) if op == hvd.Max else every.sum(0, dtype=every.dtype)
                    same(got[f"{name}{i}"], reduced, name)


def case_other_shapes_with_as_many_elements_are_told() -> None:
    if hvd.size() == 1:
        return
    for wrap in WAYS.values():
        first = mine((2, 3) if hvd.rank() == 0 else (3, 2), jnp.float32)
        tree = {"a": first, "b": mine((4,), jnp.float32)}
        error = hvd.TensorMismatchError if wrap is WAYS["at once"] else jax.errors.JaxRuntimeError
        raises(error, "of arrays with the shapes", wrap(lambda t: hvd.allreduce(t, name="twisted")), tree)
    # Another number of arrays, or of what travels.
    trees = [{"a": jnp.ones(3)}, {"a": jnp.ones(3), "b": jnp.ones(4)}, {"a": jnp.ones(1 << 16), "b": jnp.ones(1 << 16)}]
    for first, second in ((0, 1), (1, 2), (2, 0)):
        raises(
            hvd.TensorMismatchError,
            "Mismatched",
            hvd.allreduce,
            trees[first if hvd.rank() == 0 else second],
            name="other",
        )
    same(hvd.allreduce(jnp.ones(2, jnp.float32)), np.ones(2, np.float32), "afterwards")


def case_values_that_a_compiled_function_closes_over() -> None:
    tree = {"a": mine((3,), jnp.float32), "b": mine((2, 2), jnp.float32)}
    got = jax.jit(lambda: hvd.allreduce(tree, hvd.Sum, name="closed over"))()
    same(got["b"], np.sum(everyone((2, 2), jnp.float32), axis=0), "closed over")


def case_both_ways_meet() -> None:
    """A rank in a compiled function, another outside of it."""
    one = {"x": mine((4,), jnp.float32)}
    two = {"x": mine((4,), jnp.float32), "y": mine((2,), jnp.float32)}
    wrap = WAYS["compiled" if hvd.rank() == 0 else "at once"]
    for tree in (one, two):
        same(wrap(lambda t: hvd.allreduce(t, hvd.Sum))(tree)["x"], np.sum(everyone((4,), jnp.float32), axis=0), "x")
        same(wrap(hvd.broadcast)(tree)["x"], values(0, (4,), jnp.float32), "x")
        same(wrap(hvd.allgather)(tree)["x"], np.concatenate(everyone((4,), jnp.float32)), "x")
    rows = (2 * hvd.size(),)
    got = wrap(lambda x: hvd.reducescatter(x, hvd.Sum))(mine(rows, jnp.float32))
    same(got, np.sum(everyone(rows, jnp.float32), axis=0)[2 * hvd.rank() :][:2], "rows")


def case_compression() -> None:
    for wrap in WAYS.values():
        for compression in (hvd.Compression.fp16, hvd.Compression.bf16):
            tree = (mine((8,), jnp.float32), mine((3,), jnp.int32))
            got = wrap(lambda t, c=compression: hvd.allreduce(t, hvd.Sum, compression=c))(tree)
            same(got[0], np.sum(everyone((8,), jnp.float32), axis=0), compression)
            same(got[1], np.sum(everyone((3,), jnp.int32), axis=0, dtype=np.int32), compression)


def case_allgather() -> None:
    types = [*FLOATS, *INTEGERS, jnp.bool_, jnp.uint32, jnp.complex64]
    places = [(shape, dtype) for dtype in types for shape in [(1,), (3, 2), (0, 2), (2, 0)]]
    wanted = [np.concatenate(everyone(*place)) for place in places]
    check(hvd.allgather, [mine(*place) for place in places], wanted, "allgather")
    rows = [values(rank, (rank, 2), jnp.float32) for rank in range(hvd.size())]
    same(hvd.allgather(jnp.asarray(rows[hvd.rank()])), np.concatenate(rows), "uneven rows")


def case_broadcast() -> None:
    places = [((2, 3), dtype) for dtype in [*FLOATS, *INTEGERS, jnp.bool_, jnp.uint32]]
    for root in range(hvd.size()):
        wanted = [values(root, *place) for place in places]
        check(lambda x, root=root: hvd.broadcast(x, root), [mine(*place) for place in places], wanted, root)


def case_alltoall() -> None:
    size, rank = hvd.size(), hvd.rank()
    for wrap in WAYS.values():
        for dtype in [*FLOATS, *INTEGERS, jnp.bool_]:
            every = everyone((2 * size, 3), dtype)
            wanted = np.concatenate([each[2 * rank : 2 * rank + 2] for each in every])
            same(wrap(hvd.alltoall)(mine((2 * size, 3), dtype)), wanted, dtype)
    splits = [[(sender + to) % 3 for to in range(size)] for sender in range(size)]
    sent = [values(sender, (sum(splits[sender]), 2), jnp.float32) for sender in range(size)]
    starts = [sum(splits[sender][:rank]) for sender in range(size)]
    got, counts = hvd.alltoall(jnp.asarray(sent[rank]), splits[rank])
    wanted = np.concatenate([sent[s][starts[s] : starts[s] + splits[s][rank]] for s in range(size)])
    same(got, wanted, "splits")
    assert counts.tolist() == [splits[sender][rank] for sender in range(size)]


def case_reducescatter() -> None:
    places = [((rows, 2), dtype) for dtype in FLOATS + INTEGERS for rows in (1, 5, 2 * hvd.size())]
    wanted = []
    for (rows, columns), dtype in places:
        least, more = divmod(rows, hvd.size())
        begin = hvd.rank() * least + min(hvd.rank(), more)
        whole = np.sum(everyone((rows, columns), dtype), axis=0, dtype=dtype)
        wanted.append(whole[begin : begin + least + (hvd.rank() < more)])
    given = [mine(*place) for place in places]
    check(lambda x: hvd.reducescatter(x, hvd.Sum), given, wanted, "reducescatter")


def case_gradients() -> None:
    """Of a loss that is the sum over the ranks of a function of what each gets, but for allreduces, whose gradients are
    reduced as they are."""
    size, rank = hvd.size(), hvd.rank()
    weights = jnp.asarray(np.arange(12.0).reshape(6, 2) + 1) * (rank + 1)
    x = mine((6, 2), jnp.float64)
    total = sum(range(1, size + 1))
    for wrap in WAYS.values():
        for op, factor in ((hvd.Sum, 1.0), (hvd.Average, 1 / size)):
            got = wrap(jax.grad(lambda x, op=op: (hvd.allreduce(x, op, name="g") * weights).sum()))(x)
            assert np.allclose(got, weights / (rank + 1) * total * factor), op
        got = wrap(jax.grad(lambda x: (hvd.allgather(x) ** 2).sum()))(x)
        assert np.allclose(got, 2 * x * size)
        got = wrap(jax.grad(lambda x: (hvd.broadcast(x, size - 1) * weights).sum()))(x)
        assert np.allclose(got, weights / (rank + 1) * total if rank == size - 1 else 0 * x)
        y = mine((2 * size,), jnp.float64, "y")
        got = wrap(jax.grad(lambda y: (hvd.alltoall(y) * (rank + 1)).sum()))(y)
        assert np.allclose(got, np.repeat(np.arange(size) + 1.0, 2))
        for op, factor in ((hvd.Sum, 1.0), (hvd.Average, 1 / size)):
            z = mine((5, 2), jnp.float64)
            got = wrap(jax.grad(lambda z, op=op: (hvd.reducescatter(z, op) * (rank + 1)).sum()))(z)
            rows = [5 // size + (r < 5 % size) for r in range(size)]
            wanted = np.repeat(np.arange(size) + 1.0, rows)[:, None] * np.ones((5, 2)) * factor
            assert np.allclose(got, wanted), (op, got, wanted)
    tree = {"w": mine((3,), jnp.float32), "n": mine((2,), jnp.int32)}
    got = jax.grad(lambda t: hvd.allreduce(t, hvd.Sum)["w"].sum(), allow_int=True)(tree)
    assert np.allclose(got["w"], size) and got["n"].dtype == jax.dtypes.float0


def case_transformations() -> None:
    size = hvd.size()
    x = mine((4, 2 * size), jnp.float32)
    every = np.stack(everyone((4, 2 * size), jnp.float32))
    for wrap in WAYS.values():
        same(wrap(jax.vmap(lambda row: hvd.allreduce(row, hvd.Sum)))(x), every.sum(0), "vmap")
        pair = wrap(jax.vmap(lambda row, same: hvd.allreduce((row, same), hvd.Sum), (0, None)))(x, x[0])
        same(pair[1], np.broadcast_to(every[:, 0].sum(0), (4, 2 * size)), "vmap of one")
        got = wrap(jax.vmap(hvd.alltoall))(x)
        own = slice(2 * hvd.rank(), 2 * hvd.rank() + 2)
        same(got, np.concatenate([each[:, own] for each in every], axis=1), "vmap of alltoall")
    for wrap in WAYS.values():
        got = wrap(jax.vmap(lambda row: hvd.allreduce(row, hvd.Adasum)))(x)
        same(got, np.stack([np.asarray(hvd.allreduce(row, hvd.Adasum)) for row in x]), "vmap of Adasum")
        got = wrap(jax.vmap(hvd.allgather, out_axes=1))(x)
        same(got, np.concatenate([each.T for each in every]), "vmap of allgather")
        second = wrap(jax.grad(lambda y: jax.grad(lambda y: hvd.allreduce(y**3, hvd.Sum) * 1.0)(y)))(jnp.float64(2))
        assert float(second) == 12.0 * size * size / size, second
    step = jax.jit(lambda x: jax.lax.scan(lambda c, row: (c + hvd.allreduce(row, hvd.Sum), None), x[0] * 0, x)[0])
    same(step(x), every.sum((0, 1)), "scan")
    branch = jax.jit(lambda x, yes: jax.lax.cond(yes, lambda x: hvd.allreduce(x, hvd.Sum), lambda x: x, x))
    same(branch(x, True), every.sum(0), "cond")
    same(branch(x, False), np.asarray(x), "cond")
    twice = jax.jit(lambda x: (hvd.allreduce(x, hvd.Sum), hvd.allreduce(x, hvd.Sum)))
    same(twice(x)[1], every.sum(0), "twice of one name")


def case_process_sets() -> None:
    if hvd.size() < 3:
        return
    some = hvd.add_process_set([0, 2])
    if hvd.rank() in (0, 2):
        for wrap in WAYS.values():
            got = wrap(lambda x: hvd.allreduce(x, hvd.Sum, process_set=some))(mine((3,), jnp.float32))
            same(got, values(0, (3,), jnp.float32) + values(2, (3,), jnp.float32), "set")
    old = jax.jit(lambda x: hvd.allreduce(x, hvd.Sum, process_set=some))
    if hvd.rank() in (0, 2):
        old(mine((3,), jnp.float32))
    hvd.remove_process_set(some)
    raises(ValueError, "not registered", old, mine((3,), jnp.float32))


class Jax(random_calls.Front):
    """Of lists of arrays, also in compiled functions, as far as these know all shapes."""

    hvd = hvd
    dtypes = [np.dtype(dtype).name for dtype in FLOATS + INTEGERS]
    forms = list(WAYS)

    def tensor(self, value: np.ndarray, dtype: str, layout: str) -> jax.Array:
        return jnp.asarray(value).astype(dtype)

    def value(self, tensor: jax.Array) -> tuple[str, np.ndarray]:
        whole = jnp.issubdtype(tensor.dtype, jnp.integer)
        return tensor.dtype.name, np.asarray(tensor.astype(jnp.int64 if whole else jnp.float64))

    def run(self, call: random_calls.Call, given_tensor: Any, **arguments: Any) -> Any:
        function = getattr(hvd, call.operation.replace("grouped_", ""))
        may_differ = "allgather" in call.operation or call.operation == "alltoall"
        wrap = WAYS["at once" if may_differ else call.form]
        return wrap(lambda given: function(given, **arguments))(given_tensor)


def case_random_calls() -> None:
    random_calls.check_all(Jax(), 12)


def raises(kind: type[Exception], text: str, function: object, *args: object, **kwargs: object) -> None:
    try:
        jax.block_until_ready(function(*args, **kwargs))
    except kind as error:
        assert text in str(error), error
        return
    raise AssertionError(f"no {kind.__name__}: {text}")


def case_errors() -> None:
    x = mine((4,), jnp.float32)
    raises(ValueError, "cast the array", hvd.allreduce, x.astype(jnp.complex64))
    raises(ValueError, "cast the array", jax.jit(hvd.allreduce), x.astype(jnp.uint32))
    raises(ValueError, "at least one dimension", hvd.allgather, x[0])
    raises(ValueError, "at least one dimension", jax.jit(hvd.allgather), x[0])
    raises(ValueError, "name must be a str", lambda: hvd.allreduce(x, name=3))
    raises(ValueError, "takes no splits", jax.jit(lambda x: hvd.alltoall(x, [4] * hvd.size())), x)
    raises(ValueError, "Average or a Sum", jax.grad(lambda x: hvd.allreduce(x, hvd.Max).sum()), x)
    for wrap in WAYS.values():
        raises(ValueError, "more than one line", wrap(lambda x: hvd.allreduce(x, name="a\nb")), x)
        raises(ValueError, "prescale_factor", wrap(lambda x: hvd.allreduce(x, prescale_factor=float("inf"))), x)
        same(wrap(lambda x: hvd.broadcast(x, np.int64(0)))(x), values(0, (4,), jnp.float32), "root of numpy")
    raises(ValueError, "exchange elements of type complex128", hvd.broadcast, x.astype(jnp.complex128))
    jax.config.update("jax_enable_x64", False)
    raises(ValueError, "jax_enable_x64", hvd.broadcast, np.array([2**40]))
    jax.config.update("jax_enable_x64", True)
    if hvd.size() == 1:
        return
    raises(ValueError, "root rank 77", hvd.broadcast, x, 77)
    raises(jax.errors.JaxRuntimeError, "root rank 77", jax.jit(lambda x: hvd.broadcast(x, 77)), x)
    uneven = jnp.ones((hvd.rank() + 1, 2))
    raises(hvd.TensorMismatchError, "rank", lambda: hvd.allreduce(uneven, name="uneven"))
    raises(jax.errors.JaxRuntimeError, "farandole error -4", jax.jit(hvd.allreduce), uneven)
    raises(
        jax.errors.JaxRuntimeError,
        "each rank has as many rows",
        jax.jit(hvd.allgather),
        uneven[: 1 + (hvd.rank() == 1)],
    )


def main() -> None:
    hvd.init()
    for name, case in list(globals().items()):
        if name.startswith("case_"):
            case()
            os.write(1, b"passed %s\n" % name.encode())
    hvd.shutdown()


if __name__ == "__main__":
    main()
