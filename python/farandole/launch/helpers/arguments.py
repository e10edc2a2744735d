"""The flags of ``horovodrun`` as attributes of an object, as ``horovod.runner._HorovodArgs`` has them."""

from __future__ import annotations

import argparse
from types import SimpleNamespace

from farandole.launch.cli import horovodrun

# Attributes that are not called as their flags.
_FLAGS = {
    "cooldown_range": "--blacklist-cooldown-range",
    "nic": "--network-interfaces",
    "nics": "--network-interfaces",
    "slots": "--slots-per-host",
    "tcp_flag": "--tcp",
    "use_gloo": "--gloo",
    "use_jsrun": "--jsrun",
    "use_mpi": "--mpi",
}


def _flags() -> dict[str, argparse.Action]:
    actions = horovodrun.make_parser()._actions
    by_option = {option: action for action in actions for option in action.option_strings}
    by_name = {option.lstrip("-").replace("-", "_"): action for option, action in by_option.items()}
    return {**by_name, **{name: by_option[option] for name, option in _FLAGS.items()}}


class HorovodArgs(SimpleNamespace):
    """One process, and no flag given. `command` is a list of words; True stands for a flag without a value."""

    def __init__(self) -> None:
        super().__init__(**dict.fromkeys((*_flags(), "command", "run_func", "executable")))
        self.num_proc = 1


def run(args: SimpleNamespace) -> int:
    """Runs the command of `args`; returns the exit code.

    Raises:
        ValueError: an attribute that no flag has; a function instead of a command.
    """
    if getattr(args, "run_func", None) is not None:
        raise ValueError("args.run_func: use farandole.run for a function")
    flags = _flags()
    given = {n: v for n, v in vars(args).items() if v not in (None, False) and n not in ("command", "executable")}
    unknown = sorted(set(given) - set(flags))
    if unknown:
        raise ValueError(f"horovodrun has no flag for args.{unknown[0]}")
    words: list[str] = []
    for name, value in given.items():
        words.append(flags[name].option_strings[-1])
        if flags[name].nargs != 0:
            words.append(",".join(map(str, value)) if isinstance(value, (list, tuple, set)) else str(value))
    return horovodrun.main([*words, *(args.command or [])])
