"""What runs only while somebody debugs, or after something went wrong, is shown on request alone."""

from __future__ import annotations

import pytest
from projects import check

MODEL = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, flag, verbose{default}, debug_level=0):
        super().__init__()
        self.flag, self.verbose, self.debug_level = flag, verbose, debug_level

    def forward(self, x: torch.Tensor, *, debug: bool = False):
        {body}
        return x
"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("if self.verbose: print(x)", "possible"),
        ("if debug: print(x)", "possible"),
        ("if self.debug_level > 1: print(x)", "possible"),
        ("if self.flag and self.verbose: print(x)", "possible"),
        ("if self.verbose:\n            for i in range(3): print(x)", "possible"),
        ("print(x) if self.verbose else None", "possible"),
        ("self.verbose and print(x)", "possible"),
        ("self.flag and debug and print(x)", "possible"),
        ("assert x.dim() == 2, print(x)", "possible"),
        ("if self.flag:\n            print(x)\n            raise ValueError", "possible"),
        (
            "if self.flag: pass\n        else:\n            if x is not None: print(x)\n            sys.exit(1)",
            "possible",
        ),
        (
            "try:\n            if self.flag:\n                print(x)\n                raise KeyError\n"
            "        except KeyError: pass",
            "certain",
        ),
        (
            "if self.flag:\n            print(x)\n            if debug: return x\n            raise ValueError",
            "certain",
        ),
        ("try: self.flag[0]\n        except IndexError: print(x)", "likely"),
        ("try: x = self.prepare(x)\n        except ValueError: print(x)", "likely"),
        ("try: raise KeyError\n        except KeyError: print(x)", "certain"),
        ("None if self.verbose else print(x)", "likely"),
        ("self.flag and print(x)", "likely"),
        ("self.verbose or print(x)", "likely"),
        ("print(x) and self.verbose", "certain"),
        ("if self.verbose or self.flag: print(x)", "certain"),
        ("if not self.verbose: print(x)", "certain"),
        ("if self.verbose: pass\n        else: print(x)", "certain"),
        ("if self.flag: print(x)", "certain"),
        ("if self.verbose: pass\n        print(x)", "certain"),
    ],
)
def test_what_a_flag_for_debugging_guards(body: str, expected: str) -> None:
    found = check(MODEL.format(body=body, default="=False"))
    assert {finding.confidence for finding in found if finding.rule == "CL401"} == {expected}


def test_a_flag_that_is_known_to_be_set_guards_nothing() -> None:
    known = "self.verbose = True\n        if self.verbose: print(x)"
    assert [finding.confidence for finding in check(MODEL.format(body=known, default="=0"))] == ["certain"]


@pytest.mark.parametrize(("default", "expected"), [("=False", "possible"), ("=None", "possible"), ("=True", "certain")])
def test_a_flag_that_is_on_by_default_guards_nothing(default: str, expected: str) -> None:
    found = check(MODEL.format(body="if self.verbose: print(x)", default=default))
    assert [finding.confidence for finding in found] == [expected]


@pytest.mark.parametrize(
    ("flag", "expected"),
    [
        ("os.environ.get('NET_DEBUG') == '1'", "possible"),
        ("bool(os.getenv('NET_DEBUG', ''))", "possible"),
        ("config.debug", "certain"),
    ],
)
def test_a_flag_of_the_environment_is_off(flag: str, expected: str) -> None:
    text = f"import os\nfrom net import config\nDEBUG = {flag}\n" + MODEL.format(body="if DEBUG: print(x)", default="")
    found = [finding for finding in check({"model.py": text, "net.py": "import config"}) if finding.rule == "CL401"]
    assert [finding.confidence for finding in found] == [expected]


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("os.getenv('NET_DEBUG')", "possible"),
        ("os.environ.get('NET_DEBUG', '0') == '1'", "possible"),
        ("os.environ.get('NET_DEBUG', default='no').lower() in ('1', 'true')", "possible"),
        ("int(os.getenv('NET_TRACE', '0')) and x.dim() == 2", "possible"),
        ("'NET_DUMP' in os.environ", "possible"),
        ("int(os.getenv('NET_VERBOSE', '0')) > 1", "possible"),
        ("int(os.getenv('NET_VERBOSE', '2')) > 1", "certain"),
        ("os.getenv('NET_DEBUG', '0')", "certain"),
        ("os.getenv('NET_DEBUG', '1') == '1'", "certain"),
        ("os.getenv('NET_DEBUG') != '0'", "certain"),
        ("os.getenv('NET_DEBUG', level) == '1'", "certain"),
        ("os.getenv('NET_FLASH') == '1'", "certain"),
    ],
)
def test_what_a_variable_of_the_environment_guards(test: str, expected: str) -> None:
    text = "import os\n" + MODEL.format(body=f"if {test}: print(x)", default="")
    assert {finding.confidence for finding in check(text) if finding.rule == "CL401"} == {expected}


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("not self.verbose", "possible"),
        ("x.dim() == 3 or not debug", "possible"),
        ("os.getenv('NET_DEBUG', '0') != '1'", "possible"),
        ("self.verbose", "certain"),
        ("x.dim() == 3 and not debug", "certain"),
        ("os.getenv('NET_DEBUG', '1') != '1'", "certain"),
    ],
)
def test_what_comes_behind_a_function_that_is_left_where_nobody_debugs(test: str, expected: str) -> None:
    body = f"if {test}: return x\n        if x.dim() == 2: print(x)"
    found = check("import os\n" + MODEL.format(body=body, default="=False"))
    assert {finding.confidence for finding in found if finding.rule == "CL401"} == {expected}


@pytest.mark.parametrize(
    ("body", "handler", "expected"),
    [
        ("x = x + 1", "except RuntimeError as e", "possible"),
        ("x = x + 1", "except", "possible"),
        ("x = x + 1", "except (torch.OutOfMemoryError, Exception)", "possible"),
        ("x = x + self.flag[1]", "except KeyError", "likely"),
        ("x = x + self.flag[1]", "except (RuntimeError, KeyError)", "likely"),
        ("import fast_kernels", "except Exception", "likely"),
        ("raise RuntimeError", "except RuntimeError", "certain"),
        ("assert x.dim() == 2", "except Exception", "likely"),
        ("x = x + 1", "except (AssertionError, RuntimeError)", "possible"),
        ("x = x / (x.dim() - 2)", "except ZeroDivisionError", "likely"),
    ],
)
def test_what_handles_errors_of_any_sort_does_not_run(body: str, handler: str, expected: str) -> None:
    text = f"try:\n            {body}\n        {handler}:\n            if x.dim() == 2: print('failed')"
    found = check(MODEL.format(body=text, default=""))
    assert {finding.confidence for finding in found if finding.rule == "CL401"} == {expected}


@pytest.mark.parametrize(
    ("raised", "handler", "expected"),
    [
        ("TooSmall('x')", "except TooSmall", "likely"),
        ("RuntimeError('x')", "except RuntimeError", "likely"),
        ("ValueError('x')", "except RuntimeError", "possible"),
        ("ValueError('x')", "except Exception", "possible"),
    ],
)
def test_what_a_called_function_raises_is_traced_into_its_handler(raised: str, handler: str, expected: str) -> None:
    text = f"try:\n            x = sized(x)\n        {handler}:\n            if x.dim() == 2: print('failed')"
    called = f"""
class TooSmall(Exception):
    pass

def sized(x):
    if x.shape[0] < 3: raise {raised}
    return x
"""
    found = check(MODEL.format(body=text, default="") + called)
    assert {finding.confidence for finding in found if finding.rule == "CL401"} == {expected}
