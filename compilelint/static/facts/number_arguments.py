"""Which arguments of torch's functions must be Python numbers: sizes, counts, dimensions, slopes, fill values."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import View
from compilelint.static.values import NONE, Const, Scalar

EVERY: tuple[tuple[int, str], ...] = tuple((position, "size") for position in range(6))
COUNTS: dict[str, tuple[tuple[int, str], ...]] = {
    **dict.fromkeys(("zeros", "ones", "empty", "rand", "randn", "new_zeros", "new_ones", "new_empty"), EVERY),
    **dict.fromkeys(("view", "reshape", "expand", "repeat", "tile"), EVERY),
    **dict.fromkeys(("permute", "flip"), tuple((position, "dims") for position in range(6))),
    **dict.fromkeys(("full", "new_full"), ((0, "size"),)),
    "arange": ((0, "start"), (1, "end"), (2, "step")),
    "linspace": ((2, "steps"),),
    "randint": ((0, "low"), (1, "high"), (2, "size")),
    "randperm": ((0, "n"),),
    "eye": ((0, "n"), (1, "m")),
    "pad": ((1, "pad"),),
    "interpolate": ((1, "size"), (2, "scale_factor")),
    "one_hot": ((1, "num_classes"),),
    **dict.fromkeys(("topk", "kthvalue"), ((0, "k"), (1, "dim"))),
    "split": ((0, "split_size"), (0, "split_size_or_sections"), (1, "dim")),
    "chunk": ((0, "chunks"), (1, "dim")),
    "roll": ((0, "shifts"), (1, "dims")),
    "narrow": ((0, "dim"), (1, "start"), (2, "length")),
    "select": ((0, "dim"), (1, "index")),
    "unfold": ((0, "dimension"), (1, "size"), (2, "step")),
    "dropout": ((1, "p"),),
    **{f"conv{d}d": ((3, "stride"), (4, "padding"), (5, "dilation"), (6, "groups")) for d in (1, 2, 3)},
    **{
        f"conv_transpose{d}d": ((3, "stride"), (4, "padding"), (5, "output_padding"), (6, "groups"), (7, "dilation"))
        for d in (1, 2, 3)
    },
    **{f"max_pool{d}d": ((1, "kernel_size"), (2, "stride"), (3, "padding"), (4, "dilation")) for d in (1, 2, 3)},
    **{f"avg_pool{d}d": ((1, "kernel_size"), (2, "stride"), (3, "padding")) for d in (1, 2, 3)},
    **{f"adaptive_{kind}_pool{d}d": ((1, "output_size"),) for kind in ("avg", "max") for d in (1, 2, 3)},
    "pixel_shuffle": ((1, "upscale_factor"),),
    "group_norm": ((1, "num_groups"),),
    "unflatten": ((0, "dim"), (1, "sizes")),
    **dict.fromkeys(("tril", "triu"), ((0, "diagonal"),)),
    "diagonal": ((0, "offset"),),
    "multinomial": ((0, "num_samples"),),
    **dict.fromkeys(("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"), ((1, "n"), (2, "dim"))),
    **{f"{way}fft{d}": ((1, "s"), (2, "dim")) for way in ("", "i", "r", "ir", "h", "ih") for d in ("2", "n")},
    **dict.fromkeys(("fftfreq", "rfftfreq"), ((0, "n"), (1, "d"))),
    **dict.fromkeys(("stft", "istft"), ((0, "n_fft"), (1, "hop_length"), (2, "win_length"))),
    **{f"{name}_window": ((0, "window_length"),) for name in ("hann", "hamming", "blackman", "bartlett", "kaiser")},
}
"""Positions and names of parameters that must be Python numbers; positions of methods leave the tensor out."""
METHODS = frozenset(
    (
        "view reshape expand repeat tile permute flip topk kthvalue split chunk roll narrow select unfold unflatten"
        " tril triu diagonal multinomial stft istft"
    ).split()
)
"""Those of COUNTS whose function form, `torch.roll(x, ...)`, has the tensor first."""
STARRED = frozenset(
    (
        "zeros ones empty rand randn new_zeros new_ones new_empty view reshape expand repeat tile permute flip arange"
    ).split()
)
"""Those of COUNTS of which all positional arguments are such numbers."""
FUNCTIONAL = frozenset({"pad", "interpolate", "one_hot", "dropout", "pixel_shuffle", "group_norm"}).union(
    name for name in COUNTS if name.startswith(("conv", "max_pool", "avg_pool", "adaptive_"))
)
"""Those of torch.nn.functional, where names such as `unfold` mean something else."""

TRANSFORMS = frozenset(name for name in COUNTS if name.endswith(("fft", "fft2", "fftn", "fftfreq")))
"""Those of torch.fft."""
_PLAIN_HOMES = ("torch", "torch.Tensor")


def numbers_of(call: ast.Call, view: View) -> Iterator[ast.expr]:
    """The argument expressions of a torch call, or of `slice`, that are sizes or counts; nothing for any other call."""
    if view.callee(call) == "builtins.slice":
        yield from call.args
    for argument in _arguments_of(call, view):
        if isinstance(argument, (ast.Tuple, ast.List)):
            yield from argument.elts
        else:
            yield argument


def rows_of_numbers(call: ast.Call, view: View) -> Iterator[ast.expr]:
    """The expressions that give a torch call several sizes or dimensions at once: `*sizes`, `(*sizes, 3)`, `sizes`."""
    home, _, name = view.callee(call).rpartition(".")
    if name in STARRED and home == ("torch.Tensor" if name in METHODS or name.startswith("new_") else "torch"):
        yield from (argument.value for argument in call.args if isinstance(argument, ast.Starred))
    for argument in _arguments_of(call, view):
        if isinstance(argument, (ast.Tuple, ast.List)):
            yield from (part.value for part in argument.elts if isinstance(part, ast.Starred))
        else:
            yield argument


def _arguments_of(call: ast.Call, view: View) -> Iterator[ast.expr]:
    prefix, _, name = view.callee(call).rpartition(".")
    homes = ("torch.nn.functional",) if name in FUNCTIONAL else ("torch.fft",) if name in TRANSFORMS else _PLAIN_HOMES
    if name not in COUNTS or prefix not in homes:
        return
    shift = 1 if name in METHODS and prefix == "torch" else 0
    for position, keyword in COUNTS[name]:
        argument = view.argument(call, position + shift, keyword)
        if argument is not None:
            yield argument


VALUES: dict[str, tuple[tuple[int, str], ...]] = {
    "new_full": ((1, "fill_value"),),
    "full_like": ((0, "fill_value"),),
    "pad": ((2, "value"),),
    **dict.fromkeys(("add", "sub", "subtract", "rsub"), ((9, "alpha"),)),
    "addcmul": ((9, "value"),),
    **dict.fromkeys(("addmm", "baddbmm", "addmv", "addbmm"), ((9, "alpha"), (9, "beta"))),
    "index_add": ((9, "alpha"),),
    **dict.fromkeys(("leaky_relu", "leaky_relu_"), ((0, "negative_slope"),)),
    **dict.fromkeys(("elu", "celu", "elu_", "celu_"), ((0, "alpha"),)),
    "softplus": ((0, "beta"), (1, "threshold")),
    **dict.fromkeys(("hardshrink", "softshrink"), ((0, "lambd"),)),
    **dict.fromkeys(("threshold", "threshold_"), ((0, "threshold"), (1, "value"))),
    **dict.fromkeys(("hardtanh", "hardtanh_"), ((0, "min_val"), (1, "max_val"))),
    **dict.fromkeys(("alpha_dropout", "feature_alpha_dropout", "dropout1d", "dropout2d", "dropout3d"), ((0, "p"),)),
    "bernoulli": ((0, "p"),),
    **dict.fromkeys(("logit", "logit_"), ((0, "eps"),)),
    "isclose": ((1, "rtol"), (2, "atol")),
    **dict.fromkeys(("cdist", "dist"), ((1, "p"),)),
    "cosine_similarity": ((2, "eps"),),
    "pairwise_distance": ((1, "p"), (2, "eps")),
    "renorm": ((0, "p"), (2, "maxnorm")),
    **dict.fromkeys(("std", "var", "std_mean", "var_mean"), ((9, "correction"),)),
    **dict.fromkeys(("trapezoid", "cumulative_trapezoid"), ((9, "dx"),)),
    **dict.fromkeys(("hinge_embedding_loss", "triplet_margin_with_distance_loss"), ((9, "margin"),)),
    "triplet_margin_loss": ((2, "margin"), (9, "eps")),
    **dict.fromkeys(("gaussian_nll_loss", "poisson_nll_loss"), ((9, "eps"),)),
    "huber_loss": ((9, "delta"),),
    "smooth_l1_loss": ((9, "beta"),),
    "cross_entropy": ((9, "label_smoothing"),),
    "margin_ranking_loss": ((9, "margin"),),
    "layer_norm": ((3, "eps"),),
    "group_norm": ((3, "eps"),),
    "rms_norm": ((2, "eps"),),
    "normalize": ((0, "p"),),
    **dict.fromkeys(("norm", "vector_norm"), ((0, "p"), (0, "ord"))),
    "scaled_dot_product_attention": ((3, "dropout_p"), (5, "scale")),
    **dict.fromkeys(("nan_to_num", "nan_to_num_"), ((0, "nan"), (1, "posinf"), (2, "neginf"))),
    "histc": ((1, "min"), (2, "max")),
    "uniform_": ((0, "from"), (1, "to")),
    "normal_": ((0, "mean"), (1, "std")),
    "exponential_": ((0, "lambd"),),
}
"""As COUNTS for numbers that are no sizes. Positions leave the first tensor out, which a function has before them."""
BOUNDS = frozenset({"clamp", "clamp_", "clip", "clip_"})
"""These take two tensors or two numbers: where one is a number, a tensor beside it is read back."""
_HOMES = frozenset({"torch", "torch.Tensor", "torch.nn.functional", "torch.linalg"})


def values_of(call: ast.Call, view: View) -> Iterator[ast.expr]:
    """The argument expressions of a torch call that are read as numbers but decide on no size."""
    home, _, name = view.callee(call).rpartition(".")
    if home not in _HOMES:
        return
    shift = 0 if home == "torch.Tensor" else 1
    for position, keyword in VALUES.get(name, ()):
        argument = view.argument(call, position + shift, keyword)
        if argument is not None:
            yield argument
    if name in BOUNDS:
        bounds = [view.argument(call, position + shift, keyword) for position, keyword in ((0, "min"), (1, "max"))]
        given = [bound for bound in bounds if bound is not None]
        if any(isinstance(view.kind(bound), (Const, Scalar)) and view.kind(bound) != NONE for bound in given):
            yield from given
