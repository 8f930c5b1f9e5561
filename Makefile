PYTHON ?= python3
BIN := .venv/bin

.PHONY: help nightly test lab lint bench models lock clean
.DEFAULT_GOAL := help

help: ## Show what can be made
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' Makefile

nightly: .venv/ready ## Run the notebooks and write today's report in reports/
	$(BIN)/recall nightly

test: .venv/ready models ## Run the tests; offline once the model is here
	$(BIN)/python -m pytest

lab: .venv/ready ## Open JupyterLab to explore a run; newcomers: 01_first_run.ipynb
	$(BIN)/jupyter lab --notebook-dir=. notebooks/00_explore.ipynb

lint: .venv/ready ## Check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m mypy

bench: .venv/ready models ## Measure speed beside named peers; read the ratios
	$(BIN)/python -m bench

models: .venv/ready ## Fetch the models that recall.toml names
	$(BIN)/recall models pull

lock: ## Pin the dependencies again (needs uv)
	uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-emit-find-links --quiet --custom-compile-command "make lock" \
		--output-file requirements.lock

clean: ## Remove the environment; models and reports stay
	rm -rf .venv

.venv/ready: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "$(PYTHON) is older than Python 3.11; run make PYTHON=python3.12 (or another)"; exit 2; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@
