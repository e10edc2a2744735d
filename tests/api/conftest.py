from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import pytest


@pytest.fixture
def hvd(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """farandole.torch, initialised as rank 0 of 1, with the optimizer's hooks on."""
    import farandole.torch as module

    monkeypatch.setenv("HOROVOD_ELASTIC", "1")
    module.init()
    yield module
    module.shutdown()


@pytest.fixture(params=["alone", "elastic"])
def either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """farandole.torch, initialised as rank 0 of 1, which others may join or not."""
    import farandole.torch as module

    monkeypatch.setenv("HOROVOD_ELASTIC", str(int(request.param == "elastic")))
    module.init()
    yield module
    module.shutdown()
