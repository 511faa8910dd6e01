# The verbs of this project. Everything lives in .venv, which is built when pyproject.toml is newer.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# Options for one run, for example: make test ARGS="tests/store -x"
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help install run test lint check schema bench graphiql clean

help: ## list these commands
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1	\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 16

install: $(STAMP) ## build .venv with RecallQL and its tools

$(STAMP): pyproject.toml
	@command -v $(PYTHON) >/dev/null || { \
	  echo "RecallQL needs Python 3.11 or newer, and $(PYTHON) is not there. Install it, or name another: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; ok = sys.version_info >= (3, 11); \
	  sys.exit(None if ok else "RecallQL needs Python 3.11 or newer; $(PYTHON) is %d.%d. Name another: make PYTHON=python3.12 ..." % sys.version_info[:2])'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

# exec: signals that reach make's child reach the server itself.
run: $(STAMP) ## serve sample conversations on http://127.0.0.1:8000/graphql
	@exec $(BIN)/recallql demo $(ARGS)

test: $(STAMP) ## run all tests
	@$(BIN)/pytest $(ARGS)

lint: $(STAMP) ## mend what the linter and the formatter can mend
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

check: $(STAMP) ## lint, format and types, changing nothing
	@status=0; for command in "ruff check" "ruff format --check" mypy; do \
	  echo "$$command"; $(BIN)/$$command || status=1; done; exit $$status

schema: $(STAMP) ## write schema.graphql from the code
	$(BIN)/recallql schema

bench: $(STAMP) ## measure against the budgets
	$(BIN)/python -m bench $(ARGS)

graphiql: ## bundle GraphiQL into graph/static (needs Node.js)
	cd graphiql && npm ci && npm run build

clean: ## remove everything that these commands made, but no data
	rm -rf $(VENV) build dist *.egg-info .hypothesis .mypy_cache .pytest_cache .ruff_cache graphiql/node_modules
	find graph store tests bench -name __pycache__ -type d -prune -exec rm -rf {} +
