"""The flags of ``horovodrun`` as attributes of an object, as ``horovod.runner._HorovodArgs`` has them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from types import SimpleNamespace

from farandole.launch import cli
from farandole.launch.cli import horovodrun

# Attributes that are not called as their flags, or not as the last spelling of them.
_FLAGS = {
    "cooldown_range": "--blacklist-cooldown-range",
    "log_with_timestamp": "--log-with-timestamp",
    "nic": "--network-interfaces",
    "nics": "--network-interfaces",
    "slots": "--slots-per-host",
    "tcp_flag": "--tcp",
    "use_gloo": "--gloo",
    "use_jsrun": "--jsrun",
    "use_mpi": "--mpi",
}


def _flags(parser: argparse.ArgumentParser) -> dict[str, argparse.Action]:
    by_option = {option: action for action in parser._actions for option in action.option_strings}
    by_name = {option.lstrip("-").replace("-", "_"): action for option, action in by_option.items()}
    return {**by_name, **{name: by_option[option] for name, option in _FLAGS.items()}}


class HorovodArgs(SimpleNamespace):
    """One process, and no flag given. `command` is a list of words; True stands for a flag without a value."""

    def __init__(self) -> None:
        super().__init__(**dict.fromkeys((*_flags(horovodrun.make_parser()), "command", "run_func", "executable")))
        self.num_proc = 1


def parse(arguments: Sequence[str] | None = None) -> HorovodArgs:
    """A command line of ``horovodrun`` for `run`, under Horovod's names. Tuning flags are text, as they were given.

    Args:
        arguments: its words; None: those of this process, which ends with code 2 and a sentence if they are wrong.
    """
    parser = horovodrun.make_parser()
    parsed = cli.parsed_by(parser, arguments)
    args = HorovodArgs()
    flags = _flags(parser)
    # One name for each flag, the last one, which is Horovod's.
    for action, name in {flags[name]: name for name in (*flags, *_FLAGS)}.items():
        value = getattr(parsed, action.dest, None)
        setattr(args, name, value == action.const if value is not None and action.nargs == 0 else value)
    args.nics = args.nics and args.nics.split(",")
    args.command = parsed.command
    return args


def run(args: SimpleNamespace) -> int:
    """Runs the command of `args`; returns the exit code.

    Raises:
        ValueError: an attribute that no flag has; a function instead of a command.
    """
    if getattr(args, "run_func", None) is not None:
        raise ValueError("args.run_func: use farandole.run for a function")
    flags = _flags(horovodrun.make_parser())
    words: list[str] = []
    for name, value in vars(args).items():
        if value is None or value is False or name in ("command", "executable"):
            continue
        if name not in flags:
            raise ValueError(f"horovodrun has no flag for args.{name}")
        option, nargs = flags[name].option_strings[-1], flags[name].nargs
        several = list(map(str, value)) if isinstance(value, (list, tuple, set)) else [str(value)]
        if nargs == 0:
            words += [option] if value else []
        else:
            words += [option, *several] if nargs else [f"{option}={','.join(several)}"]
    return horovodrun.main([*words, *(args.command or [])])
