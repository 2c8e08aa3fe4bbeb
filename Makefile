# Every target makes what it needs in .venv: Python 3.11 or newer, git and make are all a machine must have.

PYTHON ?= python3
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
MANIFEST := $(wildcard .pre-commit-hooks.yaml)

unexport PYTHONDONTWRITEBYTECODE # the tests start Python hundreds of times: each time all would be compiled anew

.DEFAULT_GOAL := help
SET ?= labelled

.PHONY: help demo docs reference recording test test-slow attack lint format bench eval-extraction clients lock sdks dist sbom clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo 'Extra arguments: make test ARGS="-k retired". Another Python: make test PYTHON=python3.13'

demo: $(VENV)/base.stamp ## see memory-ci at work in a repository made for the occasion
	@PATH="$(abspath $(BIN)):$$PATH" bash docs/demo.sh $(ARGS)

recording: $(VENV)/dev.stamp ## record the whole loop, on a runner, into benchmarks/results/loop.md
	$(BIN)/python -m benchmarks.loop_recording $(ARGS)

test: $(VENV)/dev.stamp ## run the tests
	$(BIN)/pytest --numprocesses auto --dist worksteal -m "not slow" $(ARGS)

test-slow: $(VENV)/slow.stamp ## run the others: a runner, commits in a shell, environments of pre-commit, a browser, a database
	$(BIN)/pytest --numprocesses auto --dist worksteal -m slow $(ARGS)

attack: $(VENV)/dev.stamp ## attack it in some hundred ways, as tests/attacks/README.md lists them: ARGS="-k killed"
	$(BIN)/pytest tests/attacks --numprocesses auto --dist worksteal -m slow $(ARGS)

clients: $(VENV)/dev.stamp ## type into real coding agents (npm), whose model is a script: RELEASE=latest, ARGS="-k codex"
	npm install --silent --no-audit --no-fund --prefix $(VENV)/clients $$($(BIN)/python -m tests.clients.clients $(RELEASE))
	CLIENTS=$(VENV)/clients/node_modules $(BIN)/pytest tests/clients/real_clients.py tests/clients/real_moments.py tests/clients/real_checks.py tests/clients/real_plugins.py $(ARGS)

lint: $(VENV)/dev.stamp ## check style, types, contracts, changelog fragments and hook files
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/towncrier build --draft --version next >/dev/null
	$(BIN)/pre-commit validate-config .pre-commit-config.yaml
	$(if $(MANIFEST),$(BIN)/pre-commit validate-manifest $(MANIFEST))

format: $(VENV)/dev.stamp ## rewrite the code as lint wants it
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

bench: $(VENV)/dev.stamp ## measure retrieval, recording and the hooks
	$(BIN)/python -m benchmarks $(ARGS)

eval-extraction: $(VENV)/base.stamp ## report on a labelled set of windows: make eval-extraction SET=DIR
	$(BIN)/memory-ci eval extraction $(SET) $(ARGS)

lock: $(VENV)/bin/python ## resolve anew what the Action installs, with hashes: action/requirements/
	$(PIP_INSTALL) uv==0.13.9
	for one in base anthropic bedrock vertex mcp org-postgres otel report vectors; do \
		extra=; [ $$one = base ] || extra="--extra $$one --constraint action/requirements/base.txt"; \
		echo 'hatchling>=1.25' | $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
			--only-binary :all: --no-header --no-annotate --no-emit-index-url --no-emit-find-links \
			$$extra --output-file action/requirements/$$one.txt pyproject.toml $$([ $$one != base ] || echo -); done

sdks: ## run the fault suite of the model client against the oldest and newest supported SDK
	bash benchmarks/sdk_matrix.sh

docs: $(VENV)/docs.stamp ## build the site of the documents into site/; a link that leads nowhere fails
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build $(ARGS)

reference: $(VENV)/base.stamp ## write docs/reference/, docs/api.md and docs/errors.md from the code
	$(BIN)/python .ci/reference.py

dist: $(VENV)/dev.stamp ## build the sdist and the wheel into dist/, and check them
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/twine check --strict dist/*

sbom: $(VENV)/bin/python ## list what the Action installs as CycloneDX: dist/memory-ci.cdx.json
	$(PIP_INSTALL) cyclonedx-bom==7.5.0
	mkdir -p dist
	sed ':join; /\\$$/ {N; s/\\\n *//; b join}' action/requirements/*.txt | sort -u | $(BIN)/cyclonedx-py requirements --pyproject pyproject.toml \
		--output-reproducible --output-file dist/memory-ci.cdx.json -

clean: ## remove .venv, caches and builds
	rm -rf $(VENV) .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist site
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp is newer than pyproject.toml while what it stands for is installed.
$(VENV)/base.stamp: pyproject.toml | $(VENV)/bin/python
	$(PIP_INSTALL) --editable .
	@touch $@

$(VENV)/dev.stamp: pyproject.toml | $(VENV)/bin/python
	$(PIP_INSTALL) --editable '.[dev]'
	@touch $(VENV)/base.stamp $@

$(VENV)/docs.stamp: pyproject.toml | $(VENV)/bin/python
	$(PIP_INSTALL) --editable '.[docs]'
	@touch $(VENV)/base.stamp $@

$(VENV)/slow.stamp: pyproject.toml | $(VENV)/bin/python
	$(PIP_INSTALL) --editable '.[dev,slow]'
	@touch $(VENV)/base.stamp $@

# Half an environment would pass for a whole one, so a failure leaves none.
$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "memory-ci needs Python 3.11 or newer; $(PYTHON) --version says: $$($(PYTHON) --version 2>&1)" >&2; \
		echo "Name another one: make $(MAKECMDGOALS) PYTHON=/path/to/python3.12" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }
