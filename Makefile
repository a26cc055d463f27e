# Two commands: `make demo` and `make test`. Both need Python 3.11 or later, make and git; `make test` also a C compiler.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
DEMO := $(VENV)/.demo
TEST_WORKERS ?= 2
PYTEST := $(BIN)/pytest --numprocesses $(TEST_WORKERS) --dist loadfile

# Packages are installed without byte code: whoever imports them first must be allowed to write it.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help demo docs docs-build test test-slow test-processors test-pythons faults lint format package install clean

help:  ## list these commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

demo: $(DEMO)  ## PPO from five learning rates with fixed epochs, ADEPT(U) and hindsight: a table, a plot, advice and a page
	$(BIN)/adept demo --out runs/demo

test: lint  ## lint, types, all tests but the slow ones, and coverage of the schedulers
	$(PYTEST) -m 'not slow' --cov=src/adept/schedulers --cov-report=
	@echo "Coverage of lines and branches of the schedulers, in per cent (at least 95):"
	@$(BIN)/coverage report --format=total --fail-under=95

test-slow: install  ## the tests that take minutes: Ray, killed runs, reports in a browser, notebooks
	$(PYTEST) -m slow

test-processors: install  ## the tests of numbers again, rounded as on other processors
	$(BIN)/python -m tests.processors

test-pythons:  ## the core and what has wheels there on Python 3.10, 3.12 and 3.13, where those are installed
	.ci/other_pythons 3.10 3.12 3.13

faults: install  ## mutated files, wrong command lines, failing environments and SIGKILLs; ends at the first fault
	$(BIN)/python -m tests.faults

lint: install  ## ruff (lint and format) and mypy, changing nothing
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: install  ## let ruff format and repair what it can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: install  ## serve the documentation at http://127.0.0.1:8000, rebuilt when a file changes
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

docs-build: install  ## build the documentation into site/; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

package: install  ## build wheel and source distribution, check them, and try the wheel in an empty environment
	rm -rf dist
	$(BIN)/python -m build --quiet
	$(BIN)/twine check --strict dist/*
	$(BIN)/python .ci/check_package.py

install: $(INSTALLED)  ## make .venv and install the pinned dependencies

# No resolver is needed, since the files pin everything. PyTorch's build for graphics cards needs libraries that its CPU
# build does not: the second line installs them. Point pip at PyTorch's index of CPU builds to avoid that build.
define install-pinned
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "The pinned versions need Python 3.11 or later, but $(PYTHON) is older: make PYTHON=python3.11 …"; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing $(1) into $(VENV) …"
	@$(BIN)/python -m pip install --quiet --no-compile --no-deps --requirement $(1)
	@$(BIN)/python -m pip install --quiet --no-compile --constraint $(1) torch==2.13.0
	@$(BIN)/python -m pip install --quiet --no-compile --no-deps --no-build-isolation --editable .
	@touch $@
endef

$(INSTALLED): pyproject.toml constraints.txt
	$(call install-pinned,constraints.txt)

$(DEMO): pyproject.toml constraints/demo.txt
	$(call install-pinned,constraints/demo.txt)

clean:  ## remove .venv and what the tools left
	rm -rf $(VENV) .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist site *.egg-info

-include integrations.mk
