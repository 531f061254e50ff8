"""Small configurations of a Hugging Face model: the same architecture with few layers, narrow and with few words.

A configuration says how wide and deep a model is under names that differ from one architecture to the next. The tables
here have those that many share; what they do not know keeps its default. So there are several tries, from the smallest
to one that keeps all sizes but the vocabulary, and whoever builds the model takes the first that works.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

_Table = tuple[tuple[str, int], ...]
"""Names of settings, and the most that they may be."""

_INNER: _Table = (
    (r"(q|kv|o)_lora_rank|mamba_dt_rank|time_step_rank", 16),
    (r"mamba_n_heads|mamba_num_heads", 8),
    (r"mamba_d_head|mamba_head_dim|ssm_state_size|state_size|mamba_d_state", 16),
    (r"index_topk|index_n_heads", 4),
    (r"(.*_)?intermediate_size|(.*_)?ffn_dim|d_ff|n_inner|mlp_dim|dim_feedforward|ffn_hidden_size", 128),
)
_NARROW: _Table = (
    *_INNER,
    (r"(.*_)?(num_key_value_heads|num_kv_heads|n_kv_heads)|multi_query_group_num", 2),
    (r"(.*_)?(num_attention_heads|attention_heads|num_heads|n_heads?)|num_decoder_attention_heads", 4),
    (r"(.*_)?head_dim|d_kv|attention_head_size|kv_channels|dim_head|rotary_dim", 16),
    (r"(.*_)?hidden_size|d_model|n_embd|(word_)?embed_dim|embedding_size|emb_dim|d_embed|word_embed_proj_dim|dim", 64),
    (r"projection_dim|text_embed_dim|classifier_proj_size|entity_emb_size|lru_width|upsample_groups", 64),
)
_WHOLE_HEADS: _Table = (
    *_INNER,
    (r"(.*_)?(num_key_value_heads|num_kv_heads|n_kv_heads|num_attention_heads|attention_heads|num_heads|n_heads?)", 2),
    (r"(.*_)?hidden_size|d_model|n_embd|embed_dim|embedding_size|emb_dim|dim|projection_dim", 256),
)
_DEPTHS: _Table = ((r"(.*_)?num_(.*_)?(layers|blocks)|n_layers?|(encoder|decoder)_layers|depth", 2),)
_EXPERTS: _Table = (
    (r"num_experts|num_local_experts|n_routed_experts|moe_num_experts|num_routed_experts", 4),
    (r"num_experts_per_tok(en)?|moe_topk|moe_k|num_selected_experts|top_k|num_experts_per_topk", 2),
    (r"n_group|topk_group|first_k_dense_replace|num_dense_layers|num_mtp_layers|num_nextn_predict_layers", 1),
)
_PATTERNS: _Table = (
    (r"(.*_)?sparse_step|(.*_)?layer_(period|interval|freq)|interleave_moe_layer_step|full_attention_interval", 2),
    (r"(.*_)?layer_offset", 1),
)
"""Every how many layers another kind comes: so often that two layers have both."""
_FEW: _Table = (*_DEPTHS, *_EXPERTS, *_PATTERNS, (r"num_queries|num_query_tokens|num_image_tokens", 16))
_UNSAID = {"head_dim": 16, "num_experts_per_tok": 2, "prediction_length": 4}
"""What some configurations leave open though their model needs it."""
_WORDS = 512
_TOKEN = re.compile(r"(.*_)?token_(id|index)|(.*_)?(start|end|pad|bos|eos)_id|mask_index")
_IMAGE_TOKEN = ("image_token_id", "image_token_index")
_MOST_LAYERS = 8


def small_configs(config_class: Any, *, decoder: bool = False) -> Iterator[Callable[[], Any]]:
    """Makers of configurations of this class to try, smallest first; one may raise, as sizes can contradict each other.

    The first is narrow, the second keeps the size of a head, the third all widths, each with small images; the fourth
    is the third with images of full size, and the last has few words only. `decoder` makes a decoder of an architecture
    that can be either. Raises what the class raises without arguments.
    """
    default = config_class()
    role = {"is_decoder": True} if decoder and setting(default, "is_decoder") is False else {}
    for table, small_images in (
        ((*_NARROW, *_FEW), True),
        ((*_WHOLE_HEADS, *_FEW), True),
        (_FEW, True),
        (_FEW, False),
        ((), False),
    ):
        given = _Shrinking(table, small_images).arguments(default)
        yield functools.partial(config_class, **given, **role)


class _Shrinking:
    """One way of shrinking. Token ids stay different from one another through all parts of a configuration."""

    def __init__(self, table: _Table, small_images: bool) -> None:
        self._table = table
        self._small_images = small_images
        self._tokens: dict[int, int] = {}

    def arguments(self, default: Any) -> dict[str, Any]:
        """The arguments for a small configuration, from the default one of its class (a sub-configuration too)."""
        parts = {name: part for name in default.sub_configs if (part := setting(default, name)) is not None}
        given: dict[str, Any] = {
            name: {**_own_terms(part), "model_type": part.model_type, **self.arguments(part)}
            for name, part in parts.items()
        }
        table = _DEPTHS if self._table and _has_stages(default) else self._table
        for name in inspect.signature(type(default).__init__).parameters:
            small = self._small(default, name, table) if name not in parts else None
            if small is not None:
                given[name] = small
            if small is not None and any(re.fullmatch(names, name) for names, _ in _DEPTHS):
                given[name] = max(small, min(_last_stage(default), setting(default, name)))
        if "num_hidden_layers" in given:
            given["num_hidden_layers"] = _layers_showing_each_kind(default, given["num_hidden_layers"])
        return given

    def _small(self, default: Any, name: str, table: _Table) -> Any:
        """The small value of one setting; None to leave it as it is."""
        value = setting(default, name)
        if value is None and name in _IMAGE_TOKEN:
            return self._token(_WORDS)
        if value is None and table == (*_NARROW, *_FEW):
            return _UNSAID.get(name)
        if isinstance(value, (list, tuple)) and name == "depths" and table:
            return [1] * len(value)
        if isinstance(value, bool) or not isinstance(value, int):
            return None
        if "vocab_size" in name:
            return min(value, _WORDS)
        if _TOKEN.fullmatch(name):
            return self._token(value) if value >= _WORDS else None
        if name == "image_size":
            return _image_size(default, value) if self._small_images else None
        if name == "num_heads" and setting(default, "expand") is not None:
            name = "mamba_num_heads"  # heads that share out the expanded width
        if name == "num_key_value_heads" and value == setting(default, "num_attention_heads"):
            name = "num_attention_heads"  # one for each head, as without grouping
        return next((min(value, most) for names, most in table if re.fullmatch(names, name)), None)

    def _token(self, value: int) -> int:
        return self._tokens.setdefault(value, _WORDS - 1 - len(self._tokens))


def setting(config: Any, *names: str) -> Any:
    """The first of these settings that a configuration has and that is not None."""
    for name in names:
        try:
            value = getattr(config, name, None)
        except Exception:  # a configuration with a value per layer refuses to name one for all
            continue
        if value is not None:
            return value
    return None


def _own_terms(part: Any) -> dict[str, Any]:
    """What a sub-configuration says that its class does not, without what it says layer by layer."""
    return {
        name: value for name, value in part.to_diff_dict().items() if not (isinstance(value, list) and "layer" in name)
    }


def _last_stage(config: Any) -> int:
    """The number of the last layer whose output a part is told to hand on; 0 where it hands on what it always does."""
    features = config.to_diff_dict().get("out_features") or ()
    numbers = [int(name.removeprefix("stage")) for name in features if re.fullmatch(r"stage\d+", str(name))]
    return max(numbers, default=0)


def _has_stages(config: Any) -> bool:
    """Whether the model narrows and widens from stage to stage; its sizes then hang on each other."""
    return any(isinstance(setting(config, name), (list, tuple)) for name in ("depths", "num_heads", "hidden_sizes"))


def _image_size(config: Any, size: int) -> int:
    patch = setting(config, "patch_size")
    return min(size, patch * 4 if isinstance(patch, int) else 64)


def _layers_showing_each_kind(default: Any, fewest: int) -> int:
    """The number of layers after which each kind of layer (sliding and full attention, say) has occurred."""
    kinds = setting(default, "layer_types") or ()
    for count in range(fewest, min(len(kinds), _MOST_LAYERS) + 1):
        if set(kinds[:count]) == set(kinds):
            return count
    return fewest
