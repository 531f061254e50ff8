"""Small models with random weights whose configuration leads to breaks that the default one does not lead to."""

from __future__ import annotations

from typing import Any

import torch
import transformers as hf

from compilelint import Target

_WIDTH: dict[str, Any] = {"hidden_size": 32, "num_attention_heads": 2, "num_hidden_layers": 2, "intermediate_size": 64}
_WORDS = 100


def _words(*lengths: int, **more: Any) -> list[dict[str, Any]]:
    """A call for each length, with padding at the end of the last sentence."""
    calls = []
    for length in lengths:
        mask = torch.ones(2, length, dtype=torch.long)
        mask[-1, -2:] = 0
        calls.append({"input_ids": torch.randint(5, _WORDS, (2, length)), "attention_mask": mask, **more})
    return calls


def _evaluated(model: torch.nn.Module, calls: list[dict[str, Any]]) -> Target:
    return Target(model.eval().requires_grad_(False), calls)


def deberta() -> Target:
    """Relative positions, as the published models have."""
    config = hf.DebertaConfig(vocab_size=_WORDS, relative_attention=True, pos_att_type=["c2p", "p2c"], **_WIDTH)
    return _evaluated(hf.DebertaForMaskedLM(config), _words(12, 17))


def longformer() -> Target:
    """Sentences that differ by whole windows."""
    config = hf.LongformerConfig(vocab_size=_WORDS, attention_window=4, max_position_embeddings=64, **_WIDTH)
    return _evaluated(hf.LongformerForMaskedLM(config), _words(16, 24, 32))


def led() -> Target:
    """Sentences that differ by whole windows."""
    config = hf.LEDConfig(
        vocab_size=_WORDS, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=64, decoder_ffn_dim=64, attention_window=4,
        max_encoder_position_embeddings=64, max_decoder_position_embeddings=64,
    )  # fmt: skip
    decoder = torch.randint(5, _WORDS, (2, 6))
    return _evaluated(hf.LEDForConditionalGeneration(config), _words(16, 24, 32, decoder_input_ids=decoder))


def reformer() -> Target:
    """Both kinds of attention, whose chunks differ: one input is padded to whole chunks, one need not be."""
    config = hf.ReformerConfig(
        vocab_size=_WORDS, hidden_size=32, num_attention_heads=2, attention_head_size=16, feed_forward_size=64,
        attn_layers=["local", "lsh"], local_attn_chunk_length=4, lsh_attn_chunk_length=8, num_buckets=4,
        axial_pos_embds=False, max_position_embeddings=128, is_decoder=True, hash_seed=0,
    )  # fmt: skip
    calls = [{"input_ids": torch.randint(5, _WORDS, (2, length))} for length in (30, 32)]
    return _evaluated(hf.ReformerModelWithLMHead(config), calls)


def xmod() -> Target:
    """Two languages."""
    config = hf.XmodConfig(
        vocab_size=_WORDS, languages=["en_XX", "de_DE"], default_language="en_XX", pad_token_id=1, **_WIDTH
    )
    return _evaluated(hf.XmodForMaskedLM(config), _words(12, 17, lang_ids=torch.tensor([0, 1])))


def beit_seg() -> Target:
    """Four layers, each of which gives a feature map."""
    config = hf.BeitConfig(
        image_size=32,
        patch_size=8,
        out_indices=[1, 2, 3, 4],
        auxiliary_channels=16,
        **{**_WIDTH, "num_hidden_layers": 4},
    )
    calls = [{"pixel_values": torch.rand(batch, 3, 32, 32)} for batch in (2, 3)]
    return _evaluated(hf.BeitForSemanticSegmentation(config), calls)


def opt_train() -> Target:
    """Layers that are dropped at random."""
    config = hf.OPTConfig(
        vocab_size=_WORDS, hidden_size=32, num_attention_heads=2, num_hidden_layers=2, ffn_dim=64, layerdrop=0.5,
        word_embed_proj_dim=32, max_position_embeddings=64,
    )  # fmt: skip
    calls = _words(12, 17)
    return Target(hf.OPTForCausalLM(config).train(), [{**call, "labels": call["input_ids"]} for call in calls])


def whisper_train() -> Target:
    """Layers that are dropped at random, and masks over the sound."""
    config = hf.WhisperConfig(
        vocab_size=_WORDS, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=64, decoder_ffn_dim=64, num_mel_bins=16, max_source_positions=32,
        max_target_positions=32, encoder_layerdrop=0.5, decoder_layerdrop=0.5, apply_spec_augment=True,
        mask_time_length=2, mask_feature_prob=0.1, mask_feature_length=2, decoder_start_token_id=1, pad_token_id=0,
        bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    calls = [
        {"input_features": torch.rand(2, 16, 64), "labels": torch.randint(5, _WORDS, (2, length))} for length in (6, 9)
    ]
    return Target(hf.WhisperForConditionalGeneration(config).train(), calls)
