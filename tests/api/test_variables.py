"""Variables of the environment."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch

from farandole.base.variables import is_elastic, log_level


@pytest.mark.parametrize(
    ("variables", "elastic"),
    [
        ({}, False),
        ({"HOROVOD_ELASTIC": "0"}, False),
        ({"HOROVOD_ELASTIC": ""}, False),
        ({"HOROVOD_ELASTIC": "false", "FARANDOLE_ELASTIC": "0"}, False),
        ({"HOROVOD_ELASTIC": "1"}, True),
        ({"FARANDOLE_ELASTIC": "true"}, True),
        ({"FARANDOLE_ELASTIC": "0", "HOROVOD_ELASTIC": "1"}, False),
    ],
)
def test_a_job_is_elastic_if_a_variable_is_on(
    variables: dict[str, str], elastic: bool, hvd: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HOROVOD_ELASTIC", "FARANDOLE_ELASTIC"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert is_elastic() == elastic
    # Alone, a job that stays so has nothing to reduce: its gradients never leave autograd's memory.
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=1.0), synchronize_in_backward=False)
    weight.sum().backward()
    assert bool(optimizer._reducer.slots[0].transfer.handle) == elastic
    optimizer.step()


def test_a_word_that_is_neither_on_nor_off_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    import farandole.torch as hvd

    monkeypatch.setenv("HOROVOD_ELASTIC", "banana")
    with pytest.raises(ValueError, match='HOROVOD_ELASTIC is "banana"; allowed is 1 or 0'):
        hvd.init()


def test_log_level() -> None:
    assert log_level({}) == "warning"
    assert log_level({"HOROVOD_LOG_LEVEL": "TRACE", "FARANDOLE_LOG_LEVEL": ""}) == "debug"
    assert log_level({"HOROVOD_LOG_LEVEL": "debug", "FARANDOLE_LOG_LEVEL": "info"}) == "info"
    assert log_level({"FARANDOLE_LOG_LEVEL": "nonsense"}) == "warning"
