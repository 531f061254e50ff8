"""Which functions the table asks torch about: the public names of the modules that model code calls into.

The lists below say where to look and what must never be called; none of them says what torch does with a name.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal

Family = Literal["torch", "method", "numpy", "array", "python", "self", "module", "attribute"]

MODULES: dict[Family, str] = {
    "torch": """
        torch torch.nn torch.nn.functional torch.linalg torch.fft torch.special torch.nested torch.sparse torch.random
        torch.autograd torch.autograd.functional torch.autograd.graph torch.autograd.profiler torch.func torch.nn.init
        torch.nn.utils torch.nn.utils.rnn torch.nn.attention torch.utils.checkpoint torch.utils.dlpack torch.cuda
        torch.cuda.amp torch.cuda.nvtx torch.amp torch.cpu torch.mps torch.xpu torch.accelerator torch.backends.cuda
        torch.backends.cudnn torch.compiler torch.profiler torch.jit torch._dynamo torch.distributions torch.overrides
        torch.testing torch.signal.windows torch.masked torch.futures torch.serialization
    """,
    "numpy": "numpy numpy.linalg numpy.random numpy.fft",
    "python": """
        builtins math cmath time random os os.path os.environ sys sys.stdout sys.stderr warnings logging copy datetime
        uuid zlib json pickle re inspect gc threading heapq struct hashlib bisect collections itertools functools
        contextlib string pathlib operator statistics decimal fractions enum dataclasses types weakref io textwrap
        pprint base64 binascii secrets tempfile glob fnmatch platform traceback importlib importlib.util array queue
        contextvars urllib.parse scipy.optimize
    """,
}
# What these hold is looked up but never called: processes, sockets, the network, process groups.
UNCALLED_MODULES = """
    subprocess shutil socket signal multiprocessing asyncio concurrent.futures urllib.request ctypes atexit
    torch.distributed torch.hub torch.multiprocessing torch.library torch.utils.data torch.onnx torch.export
"""
# Of these only the named ones may be called: most of the others end, trace or rewire the process.
CALLED_ONLY = {
    "os": re.compile(
        r"getenv|getcwd|getpid|getppid|cpu_count|listdir|scandir|walk|stat|fspath|urandom|times|uname|getloadavg|"
        r"fsencode|fsdecode|access|get_exec_path|getuid"
    ),
    "sys": re.compile(r"getsizeof|getrefcount|_getframe|exc_info|intern|get\w+|is_finalizing|call_tracing"),
}
UNCALLED_NAMES = re.compile(
    r"(exec|spawn|fork|kill|abort|_?exit|quit|system|popen|input|breakpoint|help|license|credits|copyright|start|set_?trace|"
    r"setprofile|settrace\w*|setprofile\w*|stack_size|close|detach|dup\w*|truncate|fdopen|open_code|interrupt_main|"
    r"unlink|rmdir|rename|replace_path|chmod|lchmod|symlink_to|hardlink_to|link_to|clear_cache|"
    r"_?start_\w+|_?stop_\w+|cudart|init|init_process_group|set_per_process_memory_fraction|shutdown|breakpointhook|"
    r"reset_code|save_cache_artifacts|load_cache_artifacts|run_\w+|fork_rng_daemon|explain|export|optimize|wait_for\w*)$"
)
# Receivers that cannot be made by calling the class without arguments.
INSTANCES = {
    "builtins.str": "'a b'",
    "builtins.list": "[1, 2]",
    "builtins.dict": "{'a': 1}",
    "builtins.set": "{1, 2}",
    "builtins.tuple": "(1, 2)",
    "builtins.int": "3",
    "builtins.float": "0.5",
    "builtins.range": "range(3)",
    "logging.Logger": "logging.getLogger('a')",
    "pathlib.Path": "pathlib.Path('a')",
    "datetime.datetime": "datetime.datetime(2020, 1, 1)",
    "datetime.timedelta": "datetime.timedelta(1)",
    "datetime.date": "datetime.date(2020, 1, 1)",
    "re.Pattern": "re.compile('a')",
    "re.Match": "re.match('a', 'a')",
    "threading.Lock": "threading.Lock()",
    "threading.RLock": "threading.RLock()",
    "threading.Event": "threading.Event()",
    "threading.local": "threading.local()",
    "random.Random": "random.Random(0)",
    "collections.deque": "collections.deque([1, 2])",
    "collections.OrderedDict": "collections.OrderedDict(a=1)",
    "collections.defaultdict": "collections.defaultdict(list)",
    "collections.Counter": "collections.Counter('aab')",
    "io.StringIO": "io.StringIO()",
    "io.BytesIO": "io.BytesIO()",
    "contextlib.ExitStack": "contextlib.ExitStack()",
    "contextvars.ContextVar": "contextvars.ContextVar('a', default=1)",
    "numpy.random.Generator": "numpy.random.default_rng(0)",
    "numpy.random.RandomState": "numpy.random.RandomState(0)",
    "torch.Generator": "torch.Generator()",
    "torch.Size": "torch.Size([4, 4])",
    "torch.UntypedStorage": "torch.ones(4).untyped_storage()",
    "torch.nn.Module": "torch.nn.Linear(4, 4)",
    "torch.nn.ModuleList": "torch.nn.ModuleList([torch.nn.Linear(4, 4)])",
    "torch.nn.ModuleDict": "torch.nn.ModuleDict({'a': torch.nn.Linear(4, 4)})",
    "torch.nn.Sequential": "torch.nn.Sequential(torch.nn.Linear(4, 4))",
    "torch.optim.Optimizer": "torch.optim.SGD(torch.nn.Linear(4, 4).parameters(), lr=0.1)",
    "torch.distributions.Normal": "torch.distributions.Normal(torch.zeros(4), torch.ones(4))",
    "torch.distributions.Categorical": "torch.distributions.Categorical(logits=torch.zeros(4))",
    "torch.distributions.Bernoulli": "torch.distributions.Bernoulli(logits=torch.zeros(4))",
    "torch.distributions.Uniform": "torch.distributions.Uniform(0.0, 1.0)",
    "torch.autograd.profiler.record_function": "torch.autograd.profiler.record_function('a')",
}
# What a user writes instead of these method calls.
OPERATORS = {
    "__getitem__": "{0}[{1}]",
    "__setitem__": "{0}[{1}] = {2}",
    "__contains__": "{1} in {0}",
    "__bool__": "not {0}",
    "__len__": "len({0})",
    "__iter__": "[row for row in {0}]",
    "__format__": "f'{{{0}}}'",
    "__invert__": "~{0}",
    "__eq__": "{0} == {1}",
    "__matmul__": "{0} @ {1}",
    "__hash__": "{{{0}: 1}}",
}


# Modules of the standard library whose functions torch's modules import for themselves.
BORROWED = sys.stdlib_module_names - {"builtins"}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A public name, and how a program would use it. `call` has `{0}`, `{1}`, ... or one `{args}` for the arguments."""

    name: str
    family: Family
    value: Any
    call: str
    callable: bool
    instance: str = ""


def candidates() -> list[Candidate]:
    """Every candidate of the installed torch, numpy and standard library, by name."""
    found: dict[str, Candidate] = {}
    for source in (_modules, _functions, _tensor_members, _array_members, _instance_members):
        for candidate in source():
            found.setdefault(candidate.name, candidate)
    return [found[name] for name in sorted(found)]


def _functions() -> Iterator[Candidate]:
    uncalled = UNCALLED_MODULES.split()
    places = [(family, module) for family, modules in MODULES.items() for module in modules.split()]
    for family, module in [*places, *(("python", module) for module in uncalled)]:
        owner = _resolve(module)
        for name, value in _members(owner) if owner is not None else ():
            if not _wanted(owner, name, value):
                continue
            dotted = f"{module}.{name}"
            spelled = name if module == "builtins" else dotted
            yield Candidate(dotted, family, value, spelled + "({args})", _may_call(module, name))
            if isinstance(value, type) and family != "numpy" and module not in uncalled:
                yield from _class_functions(dotted, value)


def _class_functions(dotted: str, owner: type) -> Iterator[Candidate]:
    """Class and static methods, such as `datetime.datetime.now`: called on the class."""
    for name, value in _members(owner):
        static = inspect.getattr_static(owner, name)
        on_class = isinstance(static, (classmethod, staticmethod)) or type(static).__name__ == "classmethod_descriptor"
        if on_class and not name.startswith("_"):
            spelled = f"{dotted.removeprefix('builtins.')}.{name}({{args}})"
            yield Candidate(f"{dotted}.{name}", "python", value, spelled, _may_call(dotted, name))


def _tensor_members() -> Iterator[Candidate]:
    import torch

    for name, value in _members(torch.Tensor):
        dotted = f"torch.Tensor.{name}"
        if name in OPERATORS:
            yield Candidate(dotted, "method", value, OPERATORS[name], True)
        elif name.startswith("_"):
            continue
        elif callable(value):
            yield Candidate(dotted, "method", value, f"{{0}}.{name}({{args}})", _may_call("torch.Tensor", name))
        else:
            yield Candidate(dotted, "attribute", value, f"{{0}}.{name}", True)


def _array_members() -> Iterator[Candidate]:
    numpy = _resolve("numpy")
    if numpy is None:
        return
    for name, value in _members(numpy.ndarray):
        if not name.startswith("_"):
            family: Family = "array" if callable(value) else "attribute"
            call = f"{{0}}.{name}" + ("({args})" if callable(value) else "")
            yield Candidate(f"numpy.ndarray.{name}", family, value, call, name not in ("tofile", "dump"))


def _instance_members() -> Iterator[Candidate]:
    import torch

    for dotted, expression in INSTANCES.items():
        if _resolve(dotted) is None:
            continue
        made = evaluate(expression)
        for name, value in _members(type(made)):
            if not name.startswith("_") and callable(value):
                bound = getattr(made, name, value)
                unbound = value if isinstance(made, torch.nn.Module) else bound
                call = f"made.{name}({{args}})"
                yield Candidate(f"{dotted}.{name}", "self", unbound, call, _may_call(dotted, name), expression)


def _modules() -> Iterator[Candidate]:
    import torch

    for name, value in _members(torch.nn):
        if isinstance(value, type) and issubclass(value, torch.nn.Module) and not name.startswith("_"):
            yield Candidate(f"torch.nn.{name}", "module", value, f"torch.nn.{name}({{args}})", True)


def _members(owner: Any) -> Iterator[tuple[str, Any]]:
    for name in sorted(set(dir(owner)) | set(OPERATORS if isinstance(owner, type) else ())):
        try:
            yield name, getattr(owner, name)
        except Exception:  # a member that needs an optional dependency or a device
            continue


def _wanted(owner: Any, name: str, value: Any) -> bool:
    if not callable(value) or isinstance(value, ModuleType):
        return False
    if name.startswith("_") and not re.match(r"_(check|assert|getframe)", name):
        return False
    origin = str(getattr(value, "__module__", "")).partition(".")[0]
    if origin == "typing_extensions" or (getattr(owner, "__name__", "").startswith("torch") and origin in BORROWED):
        return False
    if not isinstance(value, type):
        return True
    if issubclass(value, BaseException):
        return False
    exported = getattr(owner, "__all__", None)
    return exported is None or name in exported or hasattr(value, "__exit__")


def _may_call(module: str, name: str) -> bool:
    if module in UNCALLED_MODULES.split() or UNCALLED_NAMES.match(name):
        return False
    only = CALLED_ONLY.get(module)
    return only is None or bool(only.fullmatch(name))


def _resolve(dotted: str) -> Any:
    """The object of a dotted name, importing as much of it as is a module; None where it is not installed."""
    parts = dotted.split(".")
    try:
        value: Any = importlib.import_module(parts[0])
    except ImportError:
        return None
    for index, part in enumerate(parts[1:], start=2):
        if not hasattr(value, part):
            try:
                importlib.import_module(".".join(parts[:index]))
            except ImportError:
                return None
        value = getattr(value, part)
    return value


def evaluate(expression: str) -> Any:
    """Make a receiver from one of the expressions of `INSTANCES`."""
    root = re.match(r"[a-z]+(?=\.)", expression)
    names = {root.group(): importlib.import_module(root.group())} if root else {}
    if "torch" in expression:
        names["torch"] = importlib.import_module("torch")
    make: Callable[[], Any] = eval(f"lambda: {expression}", names)
    return make()
