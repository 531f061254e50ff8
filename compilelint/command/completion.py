"""`compilelint completion SHELL`: completion scripts, made from the same parsers that read the arguments."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from compilelint.command.options import PARSERS
from compilelint.command.output import write_stdout
from compilelint.report import FORMATS


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a command: its spellings, what it is for, whether a value follows, and which if only some may."""

    names: tuple[str, ...]
    help: str
    takes_value: bool
    choices: tuple[str, ...]


def run(options: argparse.Namespace) -> int:
    """Print the script for one shell."""
    write_stdout({"bash": _bash, "zsh": _zsh, "fish": _fish}[options.shell]())
    return 0


def _options(command: str) -> Iterator[Option]:
    for action in PARSERS[command]()._actions:
        if action.option_strings:
            choices = FORMATS if action.dest == "output_format" and command == "check" else action.choices or ()
            yield Option(
                names=tuple(action.option_strings),
                help=(action.help or "").replace("'", ""),
                takes_value=action.nargs != 0,
                choices=tuple(str(choice) for choice in choices),
            )


def _words(items: Sequence[str]) -> str:
    return " ".join(items)


def _bash() -> str:
    cases, values = [], []
    for command in PARSERS:
        options = list(_options(command))
        cases.append(f'        {command}) words="{_words([name for option in options for name in option.names])}" ;;')
        values += [
            f'        {command}:{name}) COMPREPLY=($(compgen -W "{_words(option.choices)}" -- "$cur")); return ;;'
            for option in options
            if option.choices
            for name in option.names
        ]
    return "\n".join(
        [
            "# bash completion of compilelint; load it with: source <(compilelint completion bash)",
            "_compilelint() {",
            '    local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}" command=check words=""',
            f'    case "${{COMP_WORDS[1]}}" in {"|".join(PARSERS)}) command="${{COMP_WORDS[1]}}" ;; esac',
            '    case "$command:$prev" in',
            *values,
            "    esac",
            '    case "$command" in',
            *cases,
            "    esac",
            f'    [ "$COMP_CWORD" = 1 ] && words="$words {_words(list(PARSERS))}"',
            '    COMPREPLY=($(compgen -W "$words" -- "$cur") $(compgen -f -- "$cur"))',
            "}",
            "complete -o filenames -F _compilelint compilelint",
            "",
        ]
    )


def _zsh() -> str:
    lines = [
        "#compdef compilelint",
        "# zsh completion of compilelint; write it to a folder on $fpath as _compilelint",
        "_compilelint() {",
        "    local command=check",
        f'    case "$words[2]" in {"|".join(PARSERS)}) command="$words[2]" ;; esac',
        '    case "$command" in',
    ]
    for command in PARSERS:
        lines.append(f"    {command}) _arguments \\")
        for option in _options(command):
            text = option.help.replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")
            value = f":value:({_words(option.choices)})" if option.choices else ":value:_files"
            lines += [f"        '*{name}[{text}]{value if option.takes_value else ''}' \\" for name in option.names]
        lines.append("        '*:path:_files' ;;")
    return "\n".join([*lines, "    esac", "}", '_compilelint "$@"', ""])


def _fish() -> str:
    lines = ["# fish completion of compilelint; load it with: compilelint completion fish | source"]
    lines += [f"complete -c compilelint -n __fish_use_subcommand -a {command}" for command in PARSERS]
    others = _words([command for command in PARSERS if command != "check"])
    for command in PARSERS:
        seen = (
            f"not __fish_seen_subcommand_from {others}"
            if command == "check"
            else f"__fish_seen_subcommand_from {command}"
        )
        for option in _options(command):
            spelled = _words([f"-l {n[2:]}" if n.startswith("--") else f"-s {n[1:]}" for n in option.names])
            value = f" -x -a '{_words(option.choices)}'" if option.choices else " -r" if option.takes_value else ""
            lines.append(f"complete -c compilelint -n '{seen}' {spelled}{value} -d '{option.help}'")
    return "\n".join([*lines, ""])
