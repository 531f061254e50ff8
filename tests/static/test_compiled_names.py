"""By which names files call what they compile, in the forms that programs keep it."""

from __future__ import annotations

import ast
import textwrap

import pytest

from compilelint.static.project.compiled_names import called_name, compiled_names, compiles_parameter, is_compiled

BOUND = {
    "a variable": ("step = torch.compile(model)", "step"),
    "an attribute": ("self.step = torch.compile(model)", "step"),
    "an entry": ("self.steps[key] = torch.compile(model)", "steps"),
    "a list": ("self.steps.append(torch.compile(model))", "steps"),
    "in place": ("self.net.compile()", "net"),
    "by setattr": ("setattr(self, 'fast', torch.compile(model))", "fast"),
    "a decorated function": ("@torch.compile\ndef step(x): ...", "step"),
    "another name for an attribute": ("self.step = torch.compile(model)\nf = self.step", "f"),
    "one of two": ("self.step = torch.compile(model)\nf = self.step if fast else self.model", "f"),
    "a function that returns it": ("def get_step():\n    return torch.compile(model)", "get_step()"),
    "a function's variable": ("def get_step(model):\n    model = torch.compile(model)\n    return model", "get_step()"),
    "what a function returns": ("def get_step():\n    return torch.compile(model)\nf = get_step()", "f"),
    "a property": ("@property\ndef step(self):\n    return torch.compile(self.net)", "step"),
    "made once": ("@functools.cached_property\ndef step(self):\n    return torch.compile(self.net)", "step"),
    "a property of an attribute": (
        "self._step = torch.compile(self.net)\n@property\ndef step(self):\n    return self._step",
        "step",
    ),
    "a method of entries": (
        "def get(self, key):\n    self.steps[key] = torch.compile(self.net)\n    return self.steps[key]",
        "get()",
    ),
}


@pytest.mark.parametrize("name", BOUND)
def test_bound(name: str) -> None:
    code, expected = BOUND[name]
    assert expected in compiled_names(ast.parse(code))


@pytest.mark.parametrize(
    "code",
    [
        "pattern = re.compile('a')",
        "step = torch.compile(model)\ndef load_model(path):\n    model = read(path)\n    return model",
        "def result(x):\n    return torch.compile(model)(x)",
        "self.step = torch.compile(model)\ndef run(self, x):\n    return self.step(x)",
    ],
)
def test_not_bound(code: str) -> None:
    assert compiled_names(ast.parse(textwrap.dedent(code))) <= {"step"}


@pytest.mark.parametrize(
    ("call", "name"),
    [
        ("step(x)", "step"),
        ("self.step(x)", "step"),
        ("self.steps['a'](x)", "steps"),
        ("get_step()(x)", "get_step()"),
        ("self.get(key)(x)", "get()"),
        ("(lambda x: x)(1)", ""),
    ],
)
def test_called_name(call: str, name: str) -> None:
    parsed = ast.parse(call, mode="eval").body
    assert isinstance(parsed, ast.Call)
    assert called_name(parsed.func) == name


SCOPES = {
    "where it is compiled": ("def other(x):\n    net = torch.compile(Net())\n    return net(x)", True),
    "handed over": ("def other(net, x):\n    return net(x)", True),
    "handed over and moved": ("def other(net, x):\n    net = net.eval()\n    return net(x)", True),
    "of the file": ("def other(x):\n    return net(x)", True),
    "set for all": ("def other(x):\n    global net\n    net = Net()\n    return net(x)", True),
    "made by what compiles": ("def other(x):\n    net = build()\n    return net(x)", True),
    "another name of it": ("def other(fast, x):\n    net = fast\n    return net(x)", True),
    "made here": ("def other(x):\n    net = Net()\n    return net(x)", False),
    "from a list": ("def other(nets, x):\n    for net in nets:\n        net(x)", False),
    "made around it": ("def outer(x):\n    net = Net()\n    def other(x):\n        return net(x)", False),
    "made around it, handed over": (
        "def outer(x):\n    net = Net()\n    def other(net, x):\n        return net(x)",
        True,
    ),
    "an attribute": ("def other(self, x):\n    net = Net()\n    return self.net(x)", True),
}


@pytest.mark.parametrize("name", SCOPES)
def test_a_variable_of_another_function_only_shares_the_name(name: str) -> None:
    code, expected = SCOPES[name]
    tree = ast.parse(
        "def build():\n    return torch.compile(Net())\n"
        "def first(x):\n    fast = net = torch.compile(Net())\n    return net(x)\n" + code
    )
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "other"]
    calls = [node for node in ast.walk(functions[0]) if isinstance(node, ast.Call) and called_name(node.func) == "net"]
    assert [is_compiled(call.func, functions[0], tree) for call in calls] == [expected]


@pytest.mark.parametrize(
    ("body", "compiles"),
    [
        ("return torch.compile(f)(x)", {"f"}),
        ("return torch.compile(model=f)(x)", {"f"}),
        ("return torch.compile(dynamic=True)(f)(x)", {"f"}),
        ("return torch._dynamo.optimize('eager')(f)(x)", {"f"}),
        ("return torch._dynamo.optimize(f)(net)(x)", set()),
        ("return timed(torch.compile(net), f, x)", set()),
        ("return torch.compile(net)(f)(x)", set()),
        ("return re.compile(f).match(x)", set()),
    ],
)
def test_what_a_function_is_given_to_compile(body: str, compiles: set[str]) -> None:
    def asked(given: str) -> bool:
        function = ast.parse(f"def run({given}):\n    {body}\n").body[0]
        assert isinstance(function, ast.FunctionDef)
        return compiles_parameter(function)

    assert {given for given in ("f", "x") if asked(given)} == compiles
