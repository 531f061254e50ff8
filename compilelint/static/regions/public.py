"""Functions that nothing in the project compiles, but that a model outside of it may call while it is compiled."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache

from compilelint.static.project.contents import functions
from compilelint.static.project.definitions import ClassRef, FunctionRef
from compilelint.static.project.index import Import, ModuleIndex
from compilelint.static.project.program import Program
from compilelint.static.project.syntax import nodes_in
from compilelint.static.regions.decode_loops import decode_loops
from compilelint.static.regions.link import Root

PUBLIC_FUNCTION = "a public function on tensors, compiled with the model that calls it"
"""Why a region starts at a function of which nothing in the project says that it is compiled."""

_OUTSIDE_WORDS = frozenset(
    (
        "train trainer training trainers test tests testing example examples benchmark benchmarks data dataset "
        "datasets dataloader dataloaders collate transforms scripts script tools cli main convert conversion export "
        "exporter exporters eval evals evaluation onnx plot plotting visualization viz logger loggers logging "
        "callbacks io utils_io download hub setup conf recipe recipes deploy serve serving demo demos"
    ).split()
)
"""Parts of a module's name that mark code which runs around a model, not in it."""
_HOST_WORDS = frozenset(
    (
        "pipeline pipelines processing processor processors tokenization tokenizer tokenizers extraction engine "
        "engines env envs environment environments worker workers executor entrypoints runtime launcher checkpoint "
        "checkpointing quantizers integrations commands agents collectors monitor profiler elasticity samplers sampler "
        "inference inferer inferers val validation validator validators evaluator "
        "evaluators tuner tuners loader loaders handlers apps visualize attack attacks builder builders dataio "
        "alignment metadata allocator generator generators watermarking chat gym comm communication planner trackers "
        "tracking visualizer debug diagnostics"
    ).split()
)
"""Parts of a module's name that mark code which drives models (benchmarks/agreement/READING.md)."""
_TRANSFORMS = "transforms"
"""The one of these words under which modules stand that are models: normalising flows. Functions prepare data there."""
_MEDIA_MODULES = frozenset({"image_utils", "audio_utils", "video_utils"})
"""Modules that read and prepare inputs."""
_HOST_CLASSES = re.compile(
    "(?:Pipeline|(?:[Pp]re|[Pp]ost)?[Pp]rocessor|(?:Pre|Post)process|Tokenizer|Extractor|Engine|Env|Trainer|Loader|"
    "Dataset|Collator|Quantizer|Worker|"
    "Runner|Executor|Sampler|Manager|Logger|Writer|Reader|Client|Server|Inferer|Handler|Ensemble|Builder|Store|Monitor|"
    "Plotter|Queue|ReplayBuffer|RolloutBuffer|Validator|Predictor|Evaluator|Exporter|Tuner|Callback|Tracker|"
    "Visualizer|Pickler|Planner|Communicator"
    ")(?![a-z])"
)
"""Words in the names of classes whose methods drive models."""
_OUTSIDE_PREFIXES = (
    "init",
    "reset",
    "load",
    "save",
    "plot",
    "visualize",
    "from_",
    "convert",
    "export",
    "test",
    "prepare_inputs_for_generation",
    "prepare_param",
    "state_dict",
)
"""First parts of the names of functions that run around a model, of modules too."""
_HOST_VERBS = frozenset(
    (
        "train fit eval evaluate validate preprocess pre postprocess post prune replace read write download search "
        "attack inference build benchmark profile serialize deserialize tokenize"
    ).split()
)
"""First words of functions that drive models, or work on what goes in or comes out."""
_HOST_NOUNS = frozenset({"collate", "optimizer", "optimizers", "optim", "optims"})
"""Words of functions that make batches, or what trains a model: `configure_optimizers`, `setup_optimizer`."""


_TRANSFORM = re.compile(r"torch\.distributions\.(?:\w+\.)*\w*Transform")


def public_functions(program: Program, module: ModuleIndex) -> Iterator[Root]:
    """Public functions and methods on tensors: what a model outside this project calls while it is compiled.

    Of a script, and of a program that nobody installs, only the methods of its modules: it calls its functions itself.
    What is not public, prepares weights or data, reads or writes files, or is handed nothing that can be a tensor, is
    left out; whether a function gives back tensors is for the tracer to say. A file that imports compilelint describes
    targets: it builds models and their inputs.
    """
    if any(isinstance(bound, Import) and bound.module == "compilelint" for bound in module.bindings.values()):
        return
    parts = module.name.split(".")
    packaged = len(parts) > 1 and parts[0] not in program.run_in_place
    if parts[-1] in _MEDIA_MODULES or _computes_without_torch(module):
        return
    around = (_OUTSIDE_WORDS | _HOST_WORDS) & {word for part in parts for word in part.lower().split("_")}
    if packaged and around - {_TRANSFORMS}:
        return
    knows_torch = "torch" in _packages(module)
    for ref in functions(module):
        in_module = ref.owner is not None and program.is_module(ref.owner)
        in_distribution = ref.owner is not None and _is_of_distributions(program, ref.owner)
        if not (in_module or in_distribution) and (around or not packaged):
            continue
        name = ref.qualname.rpartition(".")[2]
        private = name.startswith("_") and name != "__call__" and not _is_called_by_torch(program, ref, name)
        if private or name.startswith(_OUTSIDE_PREFIXES):
            continue
        words = name.split("_")
        if words[0] in _HOST_VERBS or not _HOST_NOUNS.isdisjoint(words) or _is_property(ref):
            continue
        if ref.owner is not None and _HOST_CLASSES.search(ref.owner.qualname) and not in_module:
            continue
        if not in_module and (
            name.partition("_")[0] == "infer"
            or _talks_to_the_host(ref)
            or _handles_media(ref, module)
            or _takes_arrays(ref, module)
            or (_trains(ref.owner.node) if ref.owner is not None else decode_loops(ref, module))
        ):
            continue  # of a module `sample` with its progress bar is compiled, like it or not
        if _only_hands_over(ref) or _implements_operator(ref) or (in_module and _calls_its_module(ref)):
            continue
        holds = in_module or in_distribution or (ref.owner is not None and knows_torch)
        if not holds and not _can_take_tensors(ref):
            continue
        if ref.owner is not None and (ref.owner.qualname.startswith("_") or _is_autograd_function(program, ref.owner)):
            continue
        yield Root(ref, ref.owner, PUBLIC_FUNCTION)


_PLAIN = frozenset("int float complex bool str bytes None Path PathLike device dtype".split())
"""Names in the annotations of parameters that are no tensors."""
_LITERAL = re.compile(r"\bLiteral\[[^\]]*\]")
_TYPE_NAME = re.compile(r"\w+\b(?![.\[])")


def _can_take_tensors(ref: FunctionRef) -> bool:
    """Whether some argument, other than the object of a method, may be a tensor or hold one.

    What a model hands no tensor to makes its constants, or talks to what is around it.
    """
    arguments = ref.node.args
    decorators = () if isinstance(ref.node, ast.Lambda) else ref.node.decorator_list
    has_object = ref.owner is not None and "staticmethod" not in map(ast.unparse, decorators)
    parameters = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)[has_object:]
    several = [parameter for parameter in (arguments.vararg, arguments.kwarg) if parameter is not None]
    return any(
        parameter.annotation is None or bool(_names_in(parameter.annotation) - _PLAIN)
        for parameter in (*parameters, *several)
    )


def _names_in(annotation: ast.expr) -> set[str]:
    """The last parts of the names in an annotation, in quotes or not, but for what is generic."""
    return set(_TYPE_NAME.findall(_LITERAL.sub("", ast.unparse(annotation))))


def _only_hands_over(ref: FunctionRef) -> bool:
    """Whether all that a function does is to give back an attribute, to set one to an argument, or to raise an error.

    Nothing in it can go wrong, and to find out what `get_input_embeddings` gives back takes a whole model.
    """
    body = [] if isinstance(ref.node, ast.Lambda) else ref.node.body
    return bool(body) and all(map(_is_plain, body))


def _is_plain(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Assign):
        return all(map(_is_place, (*statement.targets, statement.value)))
    if isinstance(statement, (ast.Return, ast.Expr)):
        return statement.value is None or _is_place(statement.value)
    return isinstance(statement, (ast.Pass, ast.Raise))


def _is_place(node: ast.expr) -> bool:
    """Whether an expression is a constant, a variable, or an attribute of one."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, (ast.Name, ast.Constant))


def _is_of_distributions(program: Program, ref: ClassRef) -> bool:
    """Whether a class is a distribution or a transform of one: what models draw from and ask for densities."""
    return any(isinstance(base, str) and base.startswith("torch.distributions.") for base in program.mro(ref))


_OTHER_ARRAYS = frozenset({"numpy", "scipy", "jax", "flax", "tensorflow", "mlx", "paddle"})


def _computes_without_torch(module: ModuleIndex) -> bool:
    """Whether a file computes with numpy, scipy or another framework, and knows nothing of torch."""
    packages = _packages(module)
    return bool(packages & _OTHER_ARRAYS) and "torch" not in packages


def _packages(module: ModuleIndex) -> set[str]:
    """The top-level packages that a file imports from; of numpy not its types alone."""
    imported = {bound.module for bound in module.bindings.values() if isinstance(bound, Import)}
    return {name.partition(".")[0] for name in imported - {"numpy.typing"}}


def _takes_arrays(ref: FunctionRef, module: ModuleIndex) -> bool:
    """Whether a function takes numpy arrays, and no tensor: by its annotations, or as it computes with numpy alone."""
    annotations = [ast.unparse(p.annotation) for p in ref.node.args.args if p.annotation is not None]
    if any("Tensor" in text for text in annotations):
        return False
    return any("ndarray" in text for text in annotations) or _computes_with_arrays(ref, module)


_OF_NUMBERS = frozenset("sqrt log log2 log10 exp ceil floor prod power round abs isnan isinf deg2rad rad2deg".split())
"""Functions of numpy that code on tensors calls with a number: `q @ k / np.sqrt(width)`."""


def _computes_with_arrays(ref: FunctionRef, module: ModuleIndex) -> bool:
    """Whether a function calls numpy on more than numbers, and nothing of torch."""
    found = False
    for node in nodes_in(ref.node):
        if isinstance(node, ast.Name):
            bound = module.bindings.get(node.id)
            if isinstance(bound, Import) and bound.module.partition(".")[0] in _OF_TENSORS:
                return False
        elif isinstance(node, ast.Call):
            first, *rest = _dotted(node.func)
            bound = module.bindings.get(first)
            is_numpy = isinstance(bound, Import) and bound.module == "numpy"
            found = found or (is_numpy and bool(rest) and rest[0] != "random" and rest[-1] not in _OF_NUMBERS)
    return found


_OF_TENSORS = frozenset({"torch", "einops", "torchvision", "torchaudio"})


_HOST_CALLS = frozenset(
    (
        "tqdm trange barrier all_gather_object gather_object broadcast_object_list scatter_object_list perf_counter "
        "monotonic manual_seed isfile isdir listdir makedirs"
    ).split()
)
"""Progress bars, exchanges of objects between processes, clocks, seeds, files: no model does this in its layers."""


_HOST_PARAMETERS = ("tokenizer", "state_dict", "progress_bar", "show_progress", "with_progress", "display_progress")
"""How parameters end that no layer is given: what makes texts tokens, weights by name, a wish to see progress."""


def _talks_to_the_host(ref: FunctionRef) -> bool:
    """Whether a function itself shows progress, waits for other processes, times or seeds, or is handed such means."""
    parameters = (*ref.node.args.args, *ref.node.args.kwonlyargs)
    if any(p.arg.endswith(_HOST_PARAMETERS) or _wishes_progress(p, ref) for p in parameters):
        return True
    for node in nodes_in(ref.node):
        if isinstance(node, ast.Call):
            *owners, name = _dotted(node.func)
            if name in _HOST_CALLS or any(part.lower().endswith("tokenizer") for part in (*owners, name)):
                return True
    return False


_OF_MEDIA = frozenset(
    "PIL cv2 imageio soundfile librosa av decord torchcodec tiktoken sentencepiece tokenizers".split()
)
"""Packages of pictures, sounds, films and texts: what uses one makes the tensors that a model is given."""


def _handles_media(ref: FunctionRef, module: ModuleIndex) -> bool:
    """Whether a function names something of a package of media, as in `isinstance(image, PIL.Image.Image)`."""
    bound = (module.bindings.get(node.id) for node in nodes_in(ref.node) if isinstance(node, ast.Name))
    return any(isinstance(b, Import) and b.module.partition(".")[0] in _OF_MEDIA for b in bound)


def _wishes_progress(parameter: ast.arg, ref: FunctionRef) -> bool:
    """Whether a parameter turns a progress bar on; `progress` may also be how far the training has come, a number."""
    if not parameter.arg.endswith("progress"):
        return False
    arguments = ref.node.args
    given = dict(zip(reversed(arguments.args), reversed(arguments.defaults), strict=False))
    default = (given | dict(zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True))).get(parameter)
    says = ast.unparse(parameter.annotation) if parameter.annotation is not None else ""
    return says == "bool" or (isinstance(default, ast.Constant) and isinstance(default.value, bool))


def _dotted(node: ast.expr) -> list[str]:
    """`["self", "tokenizer", "decode"]` of `self.tokenizer.decode`; at least one part, empty for what has no name."""
    if isinstance(node, ast.Attribute):
        return [*_dotted(node.value), node.attr]
    return [node.id if isinstance(node, ast.Name) else ""]


_REGISTERS = frozenset({"register_fake", "impl_abstract", "register_kernel", "register_autograd", "register_vmap"})


def _implements_operator(ref: FunctionRef) -> bool:
    """Whether a decorator makes a function part of a custom operator: the dispatcher calls it, and Dynamo does not."""
    return any(name.rpartition(".")[2] in _REGISTERS for name in _decorators(ref))


def _calls_its_module(ref: FunctionRef) -> bool:
    """Whether a method of a module calls the module itself: it prepares the inputs of `forward`, which is compiled.

    `torch.compile(model)` and `model.compile()` leave such a method to Python (CL903).
    """
    if ref.qualname.endswith(".__call__") or "staticmethod" in _decorators(ref):
        return False  # `torch.compile` compiles `__call__`; the first argument of a static method is no module
    receiver = next((argument.arg for argument in (*ref.node.args.posonlyargs, *ref.node.args.args)), None)
    called = (node.func for node in nodes_in(ref.node) if isinstance(node, ast.Call))
    return any(_dotted(function) in ([receiver], [receiver, "forward"]) for function in called)


@lru_cache(maxsize=256)
def _trains(owner: ast.ClassDef) -> bool:
    """Whether a method of a class runs a backward pass: its objects train a model, and their methods drive it."""
    called = (node.func for node in nodes_in(owner) if isinstance(node, ast.Call))
    return any(isinstance(function, ast.Attribute) and function.attr in _TRAINING for function in called)


_TRAINING = frozenset({"backward", "zero_grad"})


def _is_property(ref: FunctionRef) -> bool:
    return any(name.endswith(("property", ".setter", ".getter")) for name in _decorators(ref))


def _decorators(ref: FunctionRef) -> list[str]:
    """The decorators of a function as written, without arguments."""
    decorators = () if isinstance(ref.node, ast.Lambda) else ref.node.decorator_list
    return [ast.unparse(d.func if isinstance(d, ast.Call) else d) for d in decorators]


def _is_called_by_torch(program: Program, ref: FunctionRef, name: str) -> bool:
    """Whether a method is what a transform of torch.distributions computes with when it is called."""
    return (
        name in ("_call", "_inverse")
        and ref.owner is not None
        and any(isinstance(base, str) and _TRANSFORM.fullmatch(base) for base in program.mro(ref.owner))
    )


def _is_autograd_function(program: Program, ref: ClassRef) -> bool:
    return any(isinstance(base, str) and base.startswith("torch.autograd.") for base in program.mro(ref))
