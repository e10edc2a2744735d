"""``farandole completion``: what a shell needs to complete `farandole` and `horovodrun`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

# Flags up to the command, then whatever the shell completes by itself: the command and its files.
_SCRIPT = """_farandole() {
    local word="${COMP_WORDS[COMP_CWORD]}" flags=""
    case "${COMP_WORDS[0]##*/}:${COMP_WORDS[1]}" in
%s    farandole:*) [ "$COMP_CWORD" -gt 1 ] || flags="%s" ;;
    esac
    COMPREPLY=()
    case "$word" in
    -*) COMPREPLY=($(compgen -W "$flags" -- "$word")) ;;
    *) [ "$COMP_CWORD" -gt 1 ] || COMPREPLY=($(compgen -W "$flags" -- "$word")) ;;
    esac
}
complete -o default -F _farandole farandole horovodrun
"""


def _flags(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Those that the help shows, too."""
    for action in parser._actions:
        if action.help != argparse.SUPPRESS:
            yield from (flag for flag in action.option_strings if flag.startswith("--"))


def bash(commands: dict[str, argparse.ArgumentParser]) -> str:
    """A script for bash, which zsh takes after `autoload bashcompinit && bashcompinit`.

    Args:
        commands: parsers by their names.
    """
    cases = [f'    farandole:{name}) flags="{" ".join(_flags(parser))}" ;;\n' for name, parser in commands.items()]
    cases.append(f'    horovodrun:*) flags="{" ".join(_flags(commands["run"]))}" ;;\n')
    return _SCRIPT % ("".join(cases), " ".join(commands))
