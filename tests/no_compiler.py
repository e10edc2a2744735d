"""Keeps torch's compiler out of a process that compiles nothing.

Every optimizer imports it, only to tell it to leave the optimizer alone: half of what a short script computes. Outside
of compiled functions the two calls do what the ones below do. What tests optimizers themselves has the real one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any


def _disable(function: Callable[..., Any], *_: Any, **__: Any) -> Callable[..., Any]:
    return function


def leave_out() -> None:
    """Before the first optimizer is made. What needs more of the compiler fails then, as that has no such attribute."""
    assert "torch._dynamo" not in sys.modules, "the compiler has been imported already"
    module = ModuleType("torch._dynamo")
    module.graph_break = lambda: None
    module.disable = _disable
    sys.modules[module.__name__] = module
