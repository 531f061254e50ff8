"""The arguments of every command, and from arguments to Settings."""

from __future__ import annotations

import argparse
import importlib
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from compilelint.config import DEVICES, FAIL_ON, ConfigError, Settings, did_you_mean, load_settings, torch_release
from compilelint.model import CONFIDENCES
from compilelint.report import FORMATS


def _command(module: str) -> Callable[[argparse.Namespace], int]:
    def run(options: argparse.Namespace) -> int:
        code: int = importlib.import_module(f"compilelint.command.{module}").run(options)
        return code

    return run


COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    name: _command(name) for name in ("check", "run", "rule", "explain", "clean", "completion")
}

EPILOG = """\
exit codes: 0 clean, 1 findings, 2 nothing could be checked (usage, configuration, no file)
"""


class Parser(argparse.ArgumentParser):
    """argparse with one-line errors that name the closest option; abbreviations, which new options break, are off."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(allow_abbrev=False, **settings)

    def error(self, message: str) -> NoReturn:
        if unknown := re.match(r"unrecognized arguments: (-\S*)", message):
            options = [option for action in self._actions for option in action.option_strings]
            message = f"unknown option {unknown[1]}{did_you_mean(unknown[1].split('=')[0], options)}"
        print(f"compilelint: {message} (see '{self.prog} --help')", file=sys.stderr)
        raise SystemExit(2)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        options, rest = self.parse_known_args(args, namespace)
        if rest:
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        return options


def parse(arguments: list[str]) -> argparse.Namespace:
    """The options of a command line without the program's name; `options.command` is the command.

    `check` is the command where none is named. Prints and raises SystemExit for --help, --version and usage errors.
    """
    if arguments and arguments[0] in ("-h", "--help", "-V", "--version"):
        return _top_level().parse_args(arguments)  # type: ignore[no-any-return]
    command = "check"
    if arguments and arguments[0] in COMMANDS:
        command, arguments = arguments[0], arguments[1:]
    parser, options = PARSERS[command](), argparse.Namespace(command=command)
    if command == "run":
        end = arguments.index("--") if "--" in arguments else len(arguments)
        arguments, options.program = arguments[:end], arguments[end + 1 :]
        if not options.program and not {"-h", "--help"}.intersection(arguments):
            parser.error("name the program after '--', as in: compilelint run -- python train.py")
    parsed: argparse.Namespace = parser.parse_args(arguments, options)
    if command == "check" and parsed.paths[:1] == arguments[:1]:
        _no_mistyped_command(parser, parsed.paths)
    return parsed


def _no_mistyped_command(parser: Parser, paths: Sequence[str]) -> None:
    """An error for a first argument that is no file or folder, but nearly a command."""
    for word in paths[:1]:
        close = did_you_mean(word, COMMANDS)
        if close and word.isalpha() and not Path(word).exists():
            parser.error(f"no command, file or folder is called '{word}'{close}")


def _top_level() -> Parser:
    from compilelint import __version__

    parser = Parser(
        prog="compilelint",
        description="Finds what torch.compile loses: statically, and with the compiler itself.",
        usage="compilelint [check] [PATH ...] [options] | compilelint run -- PROGRAM ... | "
        "compilelint rule CODE | compilelint explain FILE:LINE",
        epilog="commands:\n  check       lint files (the default; 'compilelint check --help' lists its options)\n"
        "  run         run a program that calls torch.compile, and report what the compiler did in it\n"
        "  rule        print what a rule is about\n"
        "  explain     why this line is compiled, and what would happen there\n"
        "  clean       remove what earlier runs kept (.compilelint_cache)\n"
        "  completion  print the completion script for a shell\n\n" + EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("-V", "--version", action="version", version=f"compilelint {__version__}")
    return parser


def check_parser() -> Parser:
    """The options of `compilelint check`."""
    parser = Parser(prog="compilelint check", description="Lint Python code for torch.compile.", epilog=EPILOG)
    parser._optionals.title = "general"
    parser.add_argument("paths", nargs="*", metavar="PATH", help="files and folders, '-' for stdin (default: .)")
    _runtime_options(parser)
    _fix_options(parser)
    _selection_options(parser)
    _file_options(parser)
    _output_options(parser)
    _config_options(parser)
    return parser


def run_parser() -> Parser:
    """The options of `compilelint run`; the program after `--` is no business of theirs."""
    parser = Parser(
        prog="compilelint run",
        description="Run a program, its child processes included, and join what torch.compile does in it with what the "
        "static pass says of PATH. The program is not changed, and its output passes through.",
        usage="%(prog)s [PATH ...] [options] -- PROGRAM [ARGUMENT ...]",
        epilog="exit codes: 0 clean, 1 findings, 2 the program failed, or nothing could be checked",
    )
    parser._optionals.title = "general"
    parser.add_argument("paths", nargs="*", metavar="PATH", help="files and folders (default: .)")
    group = parser.add_argument_group("runtime")
    group.add_argument("--timeout", type=_seconds, metavar="SECONDS", help="for the program (default: none)")
    group.add_argument("--target-torch", type=_version, metavar="VERSION", help="the torch version to speak about")
    _selection_options(parser)
    _file_options(parser)
    _output_options(parser)
    _config_options(parser)
    return parser


def rule_parser() -> Parser:
    """The options of `compilelint rule`."""
    parser = Parser(prog="compilelint rule", description="Print what a rule is about; without CODE, list the rules.")
    parser.add_argument("codes", nargs="*", metavar="CODE", help="a code (CL201), prefix (CL2) or name (item-call)")
    parser.add_argument("--all", action="store_true", help="print every rule")
    parser.add_argument("--output-format", choices=("text", "json"), default="text")
    return parser


def explain_parser() -> Parser:
    """The options of `compilelint explain`."""
    parser = Parser(prog="compilelint explain", description="Why is this line compiled, and what would happen there?")
    parser.add_argument("place", metavar="FILE:LINE")
    parser.add_argument(
        "paths",
        nargs="*",
        default=[],  # without one, argparse calls PATH required where FILE:LINE is missing
        metavar="PATH",
        help="code that leads there (default: files of its package that name it)",
    )
    _config_options(parser)
    return parser


def clean_parser() -> Parser:
    """The options of `compilelint clean`."""
    parser = Parser(prog="compilelint clean", description="Remove what earlier runs kept.")
    parser.add_argument("paths", nargs="*", metavar="PATH", help="as given to check (default: .)")
    _config_options(parser)
    return parser


def completion_parser() -> Parser:
    """The options of `compilelint completion`."""
    parser = Parser(prog="compilelint completion", description="Print a shell's completion script.")
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))
    return parser


PARSERS: dict[str, Callable[[], Parser]] = {
    "check": check_parser,
    "run": run_parser,
    "rule": rule_parser,
    "explain": explain_parser,
    "clean": clean_parser,
    "completion": completion_parser,
}


def _runtime_options(parser: Parser) -> None:
    group = parser.add_argument_group("runtime")
    group.add_argument("--runtime", action="store_true", help="compile the targets and let the compiler judge")
    group.add_argument(
        "--target", action="append", metavar="NAME|pkg.mod:factory|hf:CLASS", help="run this target only (repeatable)"
    )
    group.add_argument(
        "--trace",
        action="append",
        type=Path,
        metavar="DIR",
        help="logs that TORCH_TRACE=DIR wrote, also elsewhere: let them judge (repeatable)",
    )
    group.add_argument("--device", choices=DEVICES, help="where targets run (default: auto)")
    group.add_argument("--timeout", type=_seconds, metavar="SECONDS", help="for each target (default: 300)")
    group.add_argument("--target-torch", type=_version, metavar="VERSION", help="the torch version to speak about")


def _fix_options(parser: Parser) -> None:
    group = parser.add_argument_group("fixes")
    group.add_argument("--fix", action="store_true", help="make the safe fixes, and report what remains")
    group.add_argument("--unsafe-fixes", action="store_true", help="with --fix or --diff: unsafe ones as well")
    group.add_argument(
        "--verify", action="store_true", help="with --fix and --runtime: undo what the compiler does not confirm"
    )
    group.add_argument("--diff", action="store_true", help="show what --fix would change, and write nothing")


def _selection_options(parser: Parser) -> None:
    group = parser.add_argument_group("what to report")
    for name, text in (
        ("--select", "rules to switch on: code prefixes or ALL, comma-separated"),
        ("--ignore", "rules to switch off; the longer prefix wins"),
        ("--extend-select", "rules to add to the configured ones"),
    ):
        group.add_argument(name, action="extend", type=_codes, metavar="CODES", help=text)
    group.add_argument(
        "--per-file-ignores",
        action="extend",
        type=_ignores,
        metavar="PATTERN:CODES",
        help="codes to ignore in some files",
    )
    group.add_argument("--min-confidence", choices=CONFIDENCES, help="least sure findings to report (default: likely)")
    group.add_argument("--diff-base", metavar="REF", help="only findings on lines changed since this git revision")
    group.add_argument("--baseline", type=Path, metavar="FILE", help="leave out the findings this file accepts")
    group.add_argument("--update-baseline", action="store_true", help="write the findings to the baseline, accept them")
    group.add_argument("--fail-on", choices=FAIL_ON, help="which findings give exit code 1 (default: any not refuted)")
    group.add_argument("--exit-zero", action="store_true", help="exit 0 whatever is found, as --fail-on never")


def _file_options(parser: Parser) -> None:
    group = parser.add_argument_group("which files")
    group.add_argument("--exclude", action="extend", type=_list, metavar="PATTERNS", help="instead of the default list")
    group.add_argument("--extend-exclude", action="extend", type=_list, metavar="PATTERNS", help="besides that list")
    group.add_argument("--force-exclude", action="store_true", default=None, help="exclude named paths as well")
    group.add_argument(
        "--no-respect-gitignore",
        dest="respect_gitignore",
        action="store_false",
        default=None,
        help="read ignored files",
    )
    group.add_argument(
        "--context", action="append", metavar="PATH", help="read these too, without reporting on them (repeatable)"
    )
    if "check" in parser.prog:
        group.add_argument("--stdin-filename", metavar="PATH", help="where the text on stdin comes from")
        group.add_argument("--show-files", action="store_true", help="list the files that would be checked, and stop")


def _output_options(parser: Parser) -> None:
    group = parser.add_argument_group("output")
    group.add_argument(
        "--output-format",
        action="append",
        metavar="FORMAT[:FILE]",
        help=f"one of {', '.join(FORMATS)}; to FILE, or to stdout (repeatable; default: full)",
    )
    group.add_argument("-o", "--output-file", metavar="FILE", help="where the format without a FILE goes")
    group.add_argument("-q", "--quiet", action="store_true", help="without the line that sums up, for people's formats")
    group.add_argument("--statistics", action="store_true", help="count findings per rule")
    group.add_argument("--color", choices=("auto", "always", "never"), default="auto", help="default: auto")
    group.add_argument("--sarif-category", metavar="ID", help="automationDetails.id of the SARIF run (default: none)")


def _config_options(parser: Parser) -> None:
    group = parser.add_argument_group("configuration")
    group.add_argument("--config", type=Path, metavar="FILE", help="use this file instead of the nearest")
    group.add_argument("--isolated", action="store_true", help="read no configuration file")
    if "explain" not in parser.prog:
        group.add_argument(
            "--cache-dir", type=Path, metavar="FOLDER", help="where outcomes are kept (default: .compilelint_cache)"
        )
    if "check" in parser.prog or "run" in parser.prog:
        group.add_argument(
            "-n", "--no-cache", dest="cache", action="store_false", default=None, help="neither read nor keep outcomes"
        )
    if "check" in parser.prog:
        group.add_argument("--show-settings", action="store_true", help="print the settings in force, and stop")


def settings_for(options: argparse.Namespace, paths: Sequence[Path], cwd: Path) -> Settings:
    """The settings for `paths` (absolute) with the command line on top.

    `--select` replaces the configured selection together with its ignores; `--ignore` alone adds to them, as do the
    other `--extend-*` and `--per-file-ignores`.
    """
    if options.config and options.isolated:
        raise ConfigError("--config and --isolated exclude each other")
    settings = load_settings(paths, cwd, options.config, options.isolated)
    given = {name: value for name, value in vars(options).items() if value is not None}
    settings = replace(settings, **{name: given[name] for name in _REPLACING & given.keys()})
    if "select" in given:
        settings = replace(settings, select=tuple(given["select"]), ignore=(), extend_select=())
    if "exclude" in given:
        settings = replace(settings, exclude=tuple(given["exclude"]))
    if "baseline" in given:
        settings = replace(settings, baseline=cwd / given["baseline"])
    if "cache_dir" in given:
        settings = replace(settings, cache_dir=cwd / given["cache_dir"])
    if given.get("exit_zero"):
        settings = replace(settings, fail_on="never")
    added: dict[str, Any] = {name: (*getattr(settings, name), *given[name]) for name in _ADDING & given.keys()}
    return replace(settings, **added)


_ADDING = frozenset({"ignore", "extend_select", "extend_exclude", "per_file_ignores"})
_REPLACING = frozenset(
    {"min_confidence", "fail_on", "device", "timeout", "target_torch", "force_exclude", "respect_gitignore", "cache"}
)


def _list(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _codes(text: str) -> list[str]:
    return [code.upper() for code in _list(text)]


def _ignores(text: str) -> list[tuple[str, tuple[str, ...]]]:
    pattern, colon, codes = text.rpartition(":")
    if not colon or not pattern or not _codes(codes):
        raise argparse.ArgumentTypeError(f"expected PATTERN:CODES such as 'tests/*:CL4', found '{text}'")
    return [(pattern, tuple(_codes(codes)))]


def _version(text: str) -> str:
    try:
        return torch_release(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a number of seconds above 0, found '{text}'")
    return seconds
