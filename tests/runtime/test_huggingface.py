"""Targets by the name of a Hugging Face class, on stand-ins for the library and, where it is installed, on itself."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest

from compilelint.config import ConfigError, load_settings
from compilelint.runtime import huggingface
from compilelint.runtime.huggingface.inputs import CALLS, labelled, offers
from compilelint.runtime.huggingface.shrink import small_configs
from compilelint.runtime.launch import TargetSpec, run_targets

torch = pytest.importorskip("torch")


class Config:
    """What the library's configurations have in common."""

    model_type = "stand-in"
    sub_configs: ClassVar[dict[str, type]] = {}

    def to_diff_dict(self) -> dict[str, Any]:
        fresh = vars(type(self)())
        return {name: value for name, value in vars(self).items() if fresh[name] != value}


class TextConfig(Config):
    def __init__(
        self,
        vocab_size: int = 32000,
        hidden_size: int = 4096,
        intermediate_size: int = 11008,
        num_hidden_layers: int = 32,
        num_attention_heads: int = 32,
        num_key_value_heads: int = 32,
        num_experts: int = 1,
        decoder_sparse_step: int = 4,
        eos_token_id: int = 31999,
        pad_token_id: int = 0,
        tie_word_embeddings: bool = True,
        model_type: str = "stand-in",
    ) -> None:
        vars(self).update({name: value for name, value in locals().items() if name not in ("self", "model_type")})
        self.layer_types = ["sliding", "sliding", "full"] * 11


class VisionConfig(Config):
    def __init__(
        self, hidden_size: int = 1024, patch_size: int = 14, image_size: int = 224, model_type: str = ""
    ) -> None:
        self.hidden_size, self.patch_size, self.image_size = hidden_size, patch_size, image_size


class PairConfig(Config):
    """Text beside an image, whose features take the places of a token in the text."""

    sub_configs: ClassVar = {"text_config": TextConfig, "vision_config": VisionConfig}

    def __init__(self, text_config: Any = None, vision_config: Any = None, image_token_id: int = 31998) -> None:
        self.text_config = TextConfig(**(text_config or {"num_attention_heads": 16, "num_key_value_heads": 4}))
        self.vision_config = VisionConfig(**(vision_config or {}))
        self.image_token_id = image_token_id


class PreTrainedModel(torch.nn.Module):
    config_class: Any = None
    main_input_name = "input_ids"

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config


class WriterForCausalLM(PreTrainedModel):
    config_class = TextConfig

    def __init__(self, config: TextConfig) -> None:
        super().__init__(config)
        self.words = torch.nn.Embedding(config.vocab_size, config.hidden_size)
        self.head = torch.nn.Linear(config.hidden_size, config.vocab_size)

    def forward(self, input_ids: Any = None, attention_mask: Any = None, labels: Any = None) -> Any:
        if attention_mask.sum() > 0:  # break
            input_ids = input_ids + 0
        return self.head(self.words(input_ids))

    def generate(self, input_ids: Any, attention_mask: Any, max_new_tokens: int, do_sample: bool) -> Any:
        for _ in range(max_new_tokens):
            token = self(input_ids, attention_mask)[:, -1:].argmax(-1)
            input_ids = torch.cat([input_ids, token], dim=1)
            attention_mask = torch.ones_like(input_ids)
        return input_ids


class PairModel(PreTrainedModel):
    config_class = PairConfig

    def get_image_features(self, pixel_values: Any) -> Any:
        patches = (pixel_values.shape[-1] // self.config.vision_config.patch_size) ** 2
        return torch.zeros(len(pixel_values), patches, 8)

    def forward(self, input_ids: Any = None, pixel_values: Any = None, attention_mask: Any = None) -> Any:
        features = self.get_image_features(pixel_values).flatten(0, 1)
        places = input_ids == self.config.image_token_id
        if places.sum() != len(features):
            raise ValueError("features and places do not match")
        return input_ids


class StubbornModel(PreTrainedModel):
    config_class = TextConfig

    def forward(self, hidden_states: Any) -> Any:
        raise AssertionError("nobody knows what to give it")


class LackingModel:
    """What the library has in the place of a class whose requirements are not installed."""

    _backends: ClassVar = ["torch", "torchaudio"]


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> None:
    """This module's classes in the place of transformers."""
    stand_in = ModuleType("transformers")
    for item in (PreTrainedModel, TextConfig, WriterForCausalLM, PairModel, StubbornModel, LackingModel):
        setattr(stand_in, item.__name__, item)
    monkeypatch.setitem(sys.modules, "transformers", stand_in)


def test_a_small_configuration_keeps_the_architecture() -> None:
    small = next(small_configs(TextConfig))()
    assert (small.hidden_size, small.num_attention_heads, small.num_key_value_heads) == (64, 4, 4)
    assert small.num_hidden_layers == 3, "as many as show each kind of layer"
    assert small.decoder_sparse_step == 2, "so that both kinds occur in few layers"
    assert (small.num_experts, small.pad_token_id, small.tie_word_embeddings) == (1, 0, True)
    assert small.eos_token_id < small.vocab_size


def test_parts_shrink_with_the_whole_and_keep_their_own_terms() -> None:
    small = next(small_configs(PairConfig))()
    assert (small.text_config.hidden_size, small.vision_config.hidden_size) == (64, 64)
    assert small.text_config.num_key_value_heads == 2, "heads stay grouped"
    assert small.vision_config.image_size == 4 * 14
    assert small.image_token_id not in (small.text_config.eos_token_id, 31998)
    assert small.image_token_id < small.text_config.vocab_size


def test_later_tries_are_larger() -> None:
    widths = [make().hidden_size for make in small_configs(TextConfig)]
    assert widths == sorted(widths) and widths[0] < widths[-1] == 4096


def test_calls_of_a_text_model_differ_in_length_and_are_padded() -> None:
    model = WriterForCausalLM(next(small_configs(TextConfig))())
    (offer,) = offers(model)
    calls = [offer(call) for call in range(CALLS)]
    assert len({call["input_ids"].shape for call in calls}) == CALLS
    assert all(call["attention_mask"].min() == 0 for call in calls)
    assert {"labels"} == next(labelled(model))(0).keys() - calls[0].keys()


@pytest.mark.usefixtures("library")
def test_an_image_gets_its_places_in_the_text() -> None:
    target = huggingface.target("hf:PairModel")
    shapes = [{name: tuple(value.shape) for name, value in call.kwargs.items()} for call in target.arguments]
    assert [shape["pixel_values"] for shape in shapes] == [(2, 3, 56, 56)] * CALLS
    assert len({shape["input_ids"] for shape in shapes}) == CALLS


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize(("way", "training", "grads"), [("", False, False), (".train", True, True)])
def test_inference_has_no_gradients_and_training_has(way: str, training: bool, grads: bool) -> None:
    model: Any = huggingface.target(f"hf:WriterForCausalLM{way}").model
    assert model.training is training
    assert all(parameter.requires_grad is grads for parameter in model.parameters())


@pytest.mark.usefixtures("library")
def test_generate_compiles_forward_and_runs_the_decode_loop() -> None:
    target = huggingface.target("hf:WriterForCausalLM.generate")
    assert not target.compile and len(target.arguments) == CALLS - 1
    assert target.decode is not None
    torch._dynamo.utils.counters.clear()
    assert target.decode(target.model).shape[1] > target.arguments[-1].kwargs["input_ids"].shape[1]
    assert torch._dynamo.utils.counters["frames"]["total"] > 0


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("WriterForCausalLm", "no model class WriterForCausalLm; did you mean 'WriterForCausalLM'?"),
        ("TextConfig", "no model class TextConfig"),
        ("PreTrainedModel", "no configuration of its own"),
        ("LackingModel", "LackingModel needs torch and torchaudio"),
        ("WriterForCausalLM.decode", ".train or .generate"),
        ("StubbornModel", "write a function that returns compilelint.Target"),
    ],
)
def test_what_cannot_be_built_says_what_to_do(name: str, message: str) -> None:
    with pytest.raises(huggingface.BuildError) as caught:
        huggingface.target(f"hf:{name}")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_without_the_library_the_target_fails_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(huggingface.BuildError, match="pip install transformers"):
        huggingface.target("hf:WriterForCausalLM")


def test_a_configured_target_may_name_a_class(tmp_path: Path) -> None:
    (tmp_path / "compilelint.toml").write_text('targets.x.factory = "hf:LlamaForCausalLM.generate"\n')
    assert load_settings([tmp_path / "a.py"], tmp_path).targets == (("x", "hf:LlamaForCausalLM.generate"),)


def test_a_model_of_the_hub_is_no_class(tmp_path: Path) -> None:
    (tmp_path / "compilelint.toml").write_text('targets.x.factory = "hf:org/model-7b"\n')
    with pytest.raises(ConfigError, match="a class of transformers, such as hf:LlamaForCausalLM"):
        load_settings([tmp_path / "a.py"], tmp_path)


def test_a_worker_builds_it_in_every_pass(tmp_path: Path) -> None:
    home = Path(__file__).parent
    (tmp_path / "transformers.py").write_text(
        f"import sys; sys.path.append({str(home)!r})\nfrom test_huggingface import *\n"
    )
    (run,) = run_targets([TargetSpec("t", "hf:WriterForCausalLM")], device="cpu", root=tmp_path)
    assert (run.status, run.detail, run.calls) == ("ok", "", CALLS)
    mine = Path(__file__).read_text().splitlines()
    assert {mine[item.line - 1].strip() for item in run.evidence if item.gb == "GB0170"} == {
        "if attention_mask.sum() > 0:  # break"
    }


@pytest.mark.parametrize("name", ["LlamaForCausalLM", "BertForMaskedLM.train", "ViTForImageClassification"])
def test_the_library_itself(name: str) -> None:
    pytest.importorskip("transformers")
    assert len(huggingface.target(f"hf:{name}").arguments) == CALLS
