# Everything runs in .venv, made on first use and again when pyproject.toml or constraints.txt change:
# BASE is the package as a user installs it, STAMP what tests and documentation need beside it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BASE := $(VENV)/.base
STAMP := $(VENV)/.stamp
CODE := $(wildcard src tests benchmarks examples tools)

.DEFAULT_GOAL := help
.PHONY: help demo test test-rest any-machine test-browser test-install test-matrix dist kernels style lint format bench docs docs-serve clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(BASE): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "wolfhound needs Python 3.11 or newer. Got $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.12" >&2; exit 1; }
	@echo "installing wolfhound into $(VENV) (about a minute) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

$(STAMP): $(BASE)
	@echo "installing what tests and documentation need into $(VENV) (some minutes) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	@touch $@

demo: $(BASE)  ## explain one word by a mixture of others, with proof
	@$(BIN)/wolfhound demo

TESTS := $(BIN)/python -m pytest -q -n 2 --dist worksteal

test: $(STAMP)  ## the gate of every change: style, types of src, layers, and what can be tested in minutes
	@$(MAKE) --no-print-directory -j2 style kernels
	$(TESTS) -m "not rest" --hypothesis-profile=gate

test-rest: lint  ## what the gate leaves out: all types, processes, claims, fresh seeds, more examples, other kernels
	$(TESTS) -m "rest or hypothesis"
	$(BIN)/python tools/any_machine.py --quick v2 v3

any-machine: $(STAMP)  ## the numerical tests under other kernels, and beside busy processes; VARIANTS="v2 v3"
	$(BIN)/python tools/any_machine.py $(VARIANTS)

test-install: $(STAMP)  ## the path of a new user: the built wheel in an empty environment
	$(BIN)/python tools/try_install.py

test-matrix: $(STAMP)  ## lowest and newest dependencies on every interpreter found, 3.11 and later
	$(BIN)/python tools/matrix.py

dist: $(STAMP)  ## build wheel and sdist, and check what is in them
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/twine check --strict dist/*
	$(BIN)/python tools/check_dist.py dist

test-browser: $(STAMP)  ## pages in headless Chromium; pictures in build/browser
	@command -v chromium || command -v chromium-browser || command -v google-chrome || command -v chrome || \
	  { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && apt-get install -y -qq chromium; } || { \
	  echo "Chromium must be on PATH. Install the package chromium (Debian, Fedora, Homebrew) or Google Chrome." >&2; exit 1; }
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m pytest -q tests/browser

# Compiled once, before the processes of the tests need them.
kernels: $(STAMP)
	@$(BIN)/python tools/compile_kernels.py

style: $(STAMP)
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/mypy --strict src
	$(BIN)/lint-imports

lint: style  ## style, types, layers
	$(BIN)/mypy --strict

format: $(STAMP)  ## let ruff mend what it can
	$(BIN)/ruff check --fix $(CODE)
	$(BIN)/ruff format $(CODE)

bench: $(STAMP)  ## measure every claim at full size, one after the other, what is most out of date first
	@failed=0; for claim in $$($(BIN)/python tools/stale_claims.py --order || ls benchmarks/claim_*.py); do \
	  echo "== $$claim"; $(BIN)/python $$claim || failed=1; done; exit $$failed

# The theme advertises its successor at every start unless it is told not to.
MKDOCS := NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs

docs: $(STAMP)  ## build the documentation site into build/site; warnings are errors
	$(MKDOCS) build --strict --quiet
	@echo "open build/site/index.html"

docs-serve: $(STAMP)  ## show the site on this machine while you write
	$(MKDOCS) serve

clean:  ## remove the environment and all caches
	rm -rf $(VENV) build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find $(CODE) \( -name __pycache__ -o -name '*.nb[ci]' \) -prune -exec rm -rf {} +
