"""Inputs of the right kind for a Hugging Face model, from the names in its `forward` and its configuration.

A model that takes several kinds (text beside an image) is offered the richest first, down to one kind alone. `offers`
only proposes: whether a model accepts an offer is found out by calling it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

from compilelint.runtime.huggingface.shrink import setting

Inputs = dict[str, Any]
Offer = Callable[[int], Inputs]
"""From the number of a call, from 0, to its keyword arguments."""

CALLS = 3
_BATCH = 2
_LENGTHS = (12, 17, 22)
_SAMPLES = (4000, 4800, 5600)
_FRAMES = (64, 80, 96)
_WORDS = (5, 30)
_IMAGE = 64
_GRID = (1, 4, 4)


def offers(model: Any) -> Iterator[Offer]:
    """Ways to call `model` (a `transformers.PreTrainedModel`), the richest first. Calls differ in length or batch."""
    taken = frozenset(inspect.signature(model.forward).parameters)
    beside = [*_images(model.config, taken), *_sounds(model.config, taken), *_series(model.config, taken)]
    if "input_ids" in taken:
        for other in beside:
            yield from _with_text(model, taken, other)
        yield lambda call: _text(taken, _words(_LENGTHS[call]))
    for other in beside:
        if "decoder_input_ids" in taken:
            yield functools.partial(_beside_decoder, other)
        yield other


def labelled(model: Any) -> Iterator[Offer]:
    """The offers with labels of the shape that the model takes; those without where it takes none."""
    if "labels" not in inspect.signature(model.forward).parameters:
        yield from offers(model)
        return
    for offer in offers(model):
        for labels_of in (_every_word, _every_example):
            yield _with_labels(offer, labels_of)


def _with_labels(offer: Offer, labels_of: Callable[[Inputs], Any]) -> Offer:
    def call(number: int) -> Inputs:
        inputs = offer(number)
        return {**inputs, "labels": labels_of(inputs)}

    return call


def _every_word(inputs: Inputs) -> Any:
    words = inputs["decoder_input_ids" if "decoder_input_ids" in inputs else "input_ids"]
    return words % 2  # a class that every head has


def _every_example(inputs: Inputs) -> Any:
    import torch

    return torch.zeros(len(next(iter(inputs.values()))), dtype=torch.long)


def _beside_decoder(other: Offer, call: int) -> Inputs:
    return {**other(0), "decoder_input_ids": _words(_LENGTHS[call])}


def _noise(name: str, shape: tuple[int, ...], call: int) -> Inputs:
    """A growing batch of inputs of a fixed size."""
    import torch

    return {name: torch.rand(_BATCH + call, *shape)}


# -- text -----------------------------------------------------------------------------------------------------------


def _words(length: int) -> Any:
    import torch

    return torch.randint(*_WORDS, (_BATCH, length))


def _text(taken: frozenset[str], ids: Any) -> Inputs:
    import torch

    inputs: Inputs = {"input_ids": ids}
    if "attention_mask" in taken:
        inputs["attention_mask"] = torch.ones_like(ids)
        inputs["attention_mask"][-1, -2:] = 0  # the shorter sentence of a batch is padded
    if "bbox" in taken:
        inputs["bbox"] = torch.tensor([10, 20, 30, 40]).expand(*ids.shape, 4).contiguous()
    if "qformer_input_ids" in taken:
        inputs["qformer_input_ids"] = _words(_LENGTHS[0])
    if "decoder_input_ids" in taken:
        inputs["decoder_input_ids"] = _words(ids.shape[1] // 2)
    return inputs


def _with_text(model: Any, taken: frozenset[str], other: Offer) -> Iterator[Offer]:
    """Text beside another kind: with a place for each of an image's features if the model wants that."""
    token = setting(model.config, "image_token_id", "image_token_index")

    def placed(call: int) -> Inputs:
        import torch

        image = other(0)
        places = torch.full((_BATCH, _features_of_one(model, image)), token)
        ids = torch.cat([_words(2), places, _words(_LENGTHS[call])], dim=1)
        inputs = {**image, **_text(taken, ids)}
        if "mm_token_type_ids" in taken:
            inputs["mm_token_type_ids"] = (ids == token).long()
        return inputs

    if isinstance(token, int) and hasattr(model, "get_image_features"):
        yield placed
    yield lambda call: {**other(0), **_text(taken, _words(_LENGTHS[call]))}


def _features_of_one(model: Any, image: Inputs) -> int:
    """How many places in the text the features of one image take; raises what the model raises."""
    found = model.get_image_features(**image)
    features = getattr(found, "pooler_output", found)
    parts = [features] if hasattr(features, "shape") else list(features)
    return int(sum(part.numel() // part.shape[-1] for part in parts)) // _BATCH


# -- images and videos ----------------------------------------------------------------------------------------------


def _images(config: Any, taken: frozenset[str]) -> Iterator[Offer]:
    import torch

    vision = setting(config, "vision_config", "image_config", "backbone_config", "encoder") or config
    channels = _number(vision, "num_channels", "in_channels", "in_chans") or 3
    height, width = _image_size(vision)
    patch = _number(vision, "patch_size") or 16
    grid_name = next((name for name in ("image_grid_thw", "grid_thw") if name in taken), None)
    if grid_name:
        pixels = "pixel_values" if "pixel_values" in taken else "hidden_states"
        rows = _BATCH * _GRID[0] * _GRID[1] * _GRID[2]
        values = channels * (_number(vision, "temporal_patch_size") or 1) * patch * patch
        yield lambda call: {pixels: torch.rand(rows, values), grid_name: torch.tensor([_GRID] * _BATCH)}
    for name in ("pixel_values", "pixel_values_videos"):
        if name not in taken:
            continue
        frames = _number(vision, "num_frames", "frames_per_clip") or 4
        image = (channels, height, width)
        shapes = [(frames, *image)] if name.endswith("videos") else [image, (frames, *image)]
        for shape in shapes:
            yield functools.partial(_noise, name, shape)
    if "flattened_patches" in taken:
        values = 2 + (_number(vision, "patch_embed_hidden_size") or 768)
        yield functools.partial(_noise, "flattened_patches", (16, values))


def _image_size(vision: Any) -> tuple[int, int]:
    size = setting(vision, "image_size", "input_size")
    if isinstance(size, dict):
        size = (size.get("height", _IMAGE), size.get("width", _IMAGE))
    if isinstance(size, (list, tuple)) and len(size) == 2:
        return int(size[0]), int(size[1])
    return (size, size) if isinstance(size, int) else (_IMAGE, _IMAGE)


# -- sound and other series -----------------------------------------------------------------------------------------


def _sounds(config: Any, taken: frozenset[str]) -> Iterator[Offer]:
    import torch

    sound = setting(config, "audio_config", "audio_encoder", "encoder_config") or config
    bins = _number(sound, "num_mel_bins", "input_feat_per_channel", "feature_projection_input_dim", "input_dim") or 80
    wide = _number(sound, "feature_projection_input_dim", "input_feat_per_channel") or bins
    if "input_values" in taken:
        longest = _number(sound, "max_length")
        if longest and _number(sound, "num_mel_bins"):
            yield functools.partial(_noise, "input_values", (longest, bins))
        yield lambda call: {"input_values": torch.rand(_BATCH, _SAMPLES[call])}
        channels = _number(sound, "audio_channels") or 1
        yield lambda call: {"input_values": torch.rand(_BATCH, channels, _SAMPLES[call])}
    if "input_features" in taken:
        window = _number(sound, "max_source_positions")
        if window:
            yield functools.partial(_noise, "input_features", (bins, 2 * window))
        yield lambda call: {"input_features": torch.rand(_BATCH, _FRAMES[call], wide)}
        yield lambda call: {"input_features": torch.rand(_BATCH, bins, _FRAMES[call])}
        square = _number(sound, "spec_size")
        if square:
            yield functools.partial(_noise, "input_features", (1, square * (square // bins), bins))


def _series(config: Any, taken: frozenset[str]) -> Iterator[Offer]:
    if "past_time_features" in taken:
        yield functools.partial(_dated, config)
    if "past_values" in taken:
        length = _number(config, "context_length") or 32
        channels = _number(config, "num_input_channels") or 1
        yield functools.partial(_noise, "past_values", (length, channels))


def _dated(config: Any, call: int) -> Inputs:
    """A growing batch of series with the features of each point in time, as far back as the model looks."""
    import torch

    ahead = _number(config, "prediction_length") or 1
    past = (_number(config, "context_length") or ahead) + max(setting(config, "lags_sequence") or (0,))
    features = _number(config, "num_time_features") or 0
    batch = _BATCH + call
    return {
        "past_values": torch.rand(batch, past),
        "past_time_features": torch.rand(batch, past, features),
        "past_observed_mask": torch.ones(batch, past),
        "future_values": torch.rand(batch, ahead),
        "future_time_features": torch.rand(batch, ahead, features),
    }


# -- reading a configuration ----------------------------------------------------------------------------------------


def _number(config: Any, *names: str) -> int | None:
    value = setting(config, *names)
    return value if isinstance(value, int) else None
