"""A script that calls Horovod's functions by position or by name calls ours with the same meaning."""

from __future__ import annotations

import inspect
import operator

import pytest
import torch_signatures as table

import farandole.torch as hvd

NAMES = {**{name: getattr(hvd, name) for name in table.CONSTANTS}, "G": hvd.global_process_set, "C": hvd.Compression}


def wanted(text: str) -> list[tuple[str, str, object]]:
    """(name, kind, default) of each argument."""
    function: dict = {}
    exec(f"def f({text}): pass", dict(NAMES), function)
    return arguments(function["f"])


def arguments(function: object) -> list[tuple[str, str, object]]:
    return [(p.name, p.kind.name, p.default) for p in inspect.signature(function).parameters.values()]


@pytest.mark.parametrize("name", table.ALL)
def test_arguments(name: str) -> None:
    function = operator.attrgetter(name.lstrip("*"))(hvd)
    if name.startswith("*"):
        assert inspect.isclass(function)
    assert arguments(function) == wanted(", ".join(filter(None, (table.ALL[name], table.OURS.get(name)))))


def test_constants_and_errors() -> None:
    assert {name: getattr(hvd, name) for name in table.CONSTANTS} == table.CONSTANTS
    for name, base in table.ERRORS.items():
        assert issubclass(getattr(hvd, name), base)


def test_every_public_name_is_in_a_table_or_ours() -> None:
    known = {name.lstrip("*").split(".")[0] for name in table.ALL} | set(table.CONSTANTS) | set(table.ERRORS)
    errors = {"InitializationError", "NotInitializedError", "PeerLostError", "TensorMismatchError"}
    ours = {*errors, "UnsupportedOperationError", "__version__"}
    assert set(hvd.__all__) | {"_check_has_gpu"} == known | ours | {"global_process_set"}


def test_what_was_built_can_be_asked_at_any_time() -> None:
    """Before init; the answers are those that scripts look for."""
    assert (hvd.mpi_built(), hvd.mpi_enabled(), hvd.gloo_built(), hvd.gloo_enabled()) == (False, False, True, True)
    assert hvd.nccl_built() == 0 and isinstance(hvd.nccl_built(), int)
    assert not any([hvd.ddl_built(), hvd.ccl_built(), hvd.cuda_built(), hvd.rocm_built()])
    with pytest.raises(ValueError, match="initialized"):
        hvd.mpi_threads_supported()
