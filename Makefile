# Two commands on a bare machine with Python 3.10 or newer and pip:
#   make demo   lints fixtures/ and lets torch.compile confirm or refute each finding
#   make test   lint, types and tests of compilelint itself
# `make sarif` also needs npm, which fetches Microsoft's SARIF validator.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
SARIF_MULTITOOL := 5.7.0
# The program itself: npm's wrapper around it splits arguments at semicolons.
SARIF_VALIDATOR := $(VENV)/sarif/node_modules/@microsoft/sarif-multitool-linux/Sarif.Multitool

.PHONY: demo test bench sarif clean

DEMO_TARGETS := decoder-hazards decoder-clean moe-hazards

# Findings are what the demo is for, so exit code 1 is its success; 2 (nothing could be checked) is not.
demo: $(VENV)/.runtime
	@$(BIN)/compilelint check fixtures --device cpu $(DEMO_TARGETS:%=--target %) || test $$? -eq 1

test: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest

# CPU time of the static pass beside two parsers and other linters; BENCH="folder ..." measures other code.
bench: $(VENV)/.bench
	$(BIN)/python benchmarks/speed/run.py $(BENCH)

sarif: $(VENV)/.dev
	npm install --silent --no-audit --no-fund --prefix $(VENV)/sarif @microsoft/sarif-multitool@$(SARIF_MULTITOOL)
	chmod u+x $(SARIF_VALIDATOR)
	SARIF_VALIDATOR=$(abspath $(SARIF_VALIDATOR)) $(BIN)/python -m pytest tests/report/test_sarif_validator.py

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "compilelint needs Python 3.10 or newer: make PYTHON=python3.12 $(MAKECMDGOALS)")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.runtime: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) install --quiet --constraint constraints.txt --editable '.[runtime]'
	@touch $@

$(VENV)/.bench: $(VENV)/.dev
	$(PIP) install --quiet --editable '.[bench]'
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime
	$(PIP) install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache
