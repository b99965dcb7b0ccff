# Two targets for users, `make demo` and `make test`; the rest is for those who change the code.
# Everything lives in .venv; nothing is installed outside this folder.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check -qq

.PHONY: demo test install lint format schema docs hooks clean
.DEFAULT_GOAL := demo

demo: $(VENV)/.installed
	@$(BIN)/unstall demo

# What was skipped, and why, stands in pytest's summary.
test: $(VENV)/.installed-dev
	@$(BIN)/python -m pytest

install: $(VENV)/.installed

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null \
	  || { echo "unstall needs Python 3.10 or newer: make demo PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) \
	  || { rm -rf $(VENV); echo "No virtual environment: on Debian and Ubuntu, apt install python3-venv" >&2; exit 1; }

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	@echo "Installing unstall into $(VENV) (about a minute the first time) ..."
	@$(PIP) install --editable .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml | $(BIN)/python
	@echo "Installing unstall and what its tests need into $(VENV) ..."
	@$(PIP) install --editable '.[dev]'
	@touch $@ $(VENV)/.installed

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/codespell

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

# The published JSON Schema; a test holds it against the code.
schema: $(VENV)/.installed
	$(BIN)/python -c 'from unstall.report.json import schema_text; print(schema_text(), end="")' > docs/report.schema.json

# The generated pages, and the site in site/, which opens from disk.
docs: $(VENV)/.installed-dev
	$(BIN)/python -m unstall.diagnose.docs
	$(BIN)/python -m unstall.commands.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

hooks: $(VENV)/.installed-dev
	@$(PIP) install pre-commit
	$(BIN)/pre-commit install

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis dist site
