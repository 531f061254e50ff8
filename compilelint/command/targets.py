"""Which targets `--runtime` runs, and running them."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

from compilelint.command.progress import progress
from compilelint.config import ConfigError, Settings, did_you_mean, factory_name
from compilelint.model import TargetRun
from compilelint.runtime.launch import TargetsInterrupted, TargetSpec, run_targets

__all__ = ["TargetsInterrupted", "run_specs", "target_specs"]


def target_specs(asked: Sequence[str] | None, settings: Settings) -> tuple[TargetSpec, ...]:
    """The targets that `--target` names, or all configured ones. Raises ConfigError for a name nobody configured."""
    configured = dict(settings.targets)
    if find_spec("torch") is None:
        raise ConfigError("the runtime pass needs torch beside compilelint, in the same environment: pip install torch")
    if not asked and not configured:
        raise ConfigError(
            '--runtime: no targets; add [tool.compilelint.targets.NAME] with factory = "pkg.mod:function", '
            "or name one with --target pkg.mod:function or --target hf:LlamaForCausalLM"
        )
    specs = [TargetSpec(name, factory) for name, factory in configured.items()] if not asked else []
    for text in asked or ():
        if text in configured:
            specs.append(TargetSpec(text, configured[text]))
            continue
        if ":" not in text:
            hint = did_you_mean(text, configured) or "; configured are " + (", ".join(configured) or "none")
            raise ConfigError(f"--target: '{text}' is neither configured nor pkg.mod:factory nor hf:CLASS{hint}")
        try:
            specs.append(TargetSpec(text, factory_name(text)))
        except ValueError as error:
            raise ConfigError(f"--target: {error}") from None
    return tuple(specs)


def run_specs(specs: Sequence[TargetSpec], settings: Settings, *, results: bool = False) -> tuple[TargetRun, ...]:
    """Run the targets one after another; a terminal is told on one line which is at work, and at what.

    `results` asks for what each call returned. Raises TargetsInterrupted.
    """
    with progress([spec.name for spec in specs]) as tell:
        return run_targets(
            specs,
            device=settings.device,
            timeout=settings.timeout,
            root=settings.root,
            on_progress=tell,
            results=results,
        )
