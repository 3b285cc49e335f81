# All commands of people and build machines. `make` alone lists them.
#
#   PYTHON=python3.14   the interpreter of a new environment (3.11 to 3.14)
#   VENV=.venv          folder of the environment
#   RATINGS=file        `make demo`: ratings to use instead of the synthetic catalog
#   PORT=9000           `make demo`: port to serve on; default: 8000, or any free port if 8000 is in use
#   ARGS="…"            `make test`, `make bench`, `make loadtest`, `make faults`, `make mutants`: arguments of the command
#   TRIALS=50           `make faults`: number of times that processes are killed
#   MINUTES=5           `make soak`: duration

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
# The tools of a release, with the hashes of locks/.
TOOLS := $(CURDIR)/build/tools
# Hashes of wheels for all Python versions and processors, for the Dockerfile; only Windows needs colorama. The lock of
# the image for GPUs includes the other one.
LOCK := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --only-binary :all: --generate-hashes \
  --no-emit-package colorama --no-annotate --no-strip-extras --constraint constraints.txt --custom-compile-command 'make lock'

# Tests and services start hundreds of processes, which read what the first one has compiled.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help demo install test lint types kernels bytecode coverage format docs clients dist lock image bench loadtest faults mutants soak clean

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/base ## install, serve, import ratings, train, recommend; keeps serving
	@$(BIN)/python -m service.cli.demo $(if $(RATINGS),--ratings "$(RATINGS)") $(if $(PORT),--port $(PORT))

install: $(VENV)/dev ## create the environment for development

test: $(VENV)/dev ## install, then every check and every test, in four processes
	$(MAKE) --jobs 2 --output-sync lint types kernels bytecode
	$(BIN)/python -m pytest --numprocesses 4 --dist loadfile --no-loadscope-reorder $(ARGS)

lint: $(VENV)/dev ## rules and format (ruff), rooms (import-linter), spelling (codespell)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/codespell

types: $(VENV)/dev ## mypy --strict
	$(BIN)/mypy

coverage: $(VENV)/dev ## measure branch coverage of the tests, without device code; takes twice as long as the tests
	$(INSTALL) coverage  # now, as Numba imports it in every process of an environment that has it
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest $(ARGS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --skip-covered

kernels: $(VENV)/dev ## compile the kernels of the host into the cache, which tests and trainings then share
	$(BIN)/python -m service.cli.warm

bytecode: $(VENV)/dev ## compile the tests, which each of the four processes would else do for itself
	@$(BIN)/python -m pytest --collect-only --quiet $(ARGS) >/dev/null || true

format: $(VENV)/dev ## format the code, and fix what ruff can fix
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/dev ## rewrite the generated parts of docs/ and deploy/, then build the site: site/index.html
	$(BIN)/python -m docs.generate
	$(BIN)/python -m deploy.generate
	$(BIN)/zensical build --strict --clean

clients: $(VENV)/dev ## rewrite the generated parts of clients/
	$(BIN)/python -m clients.generate

dist: $(TOOLS)/installed ## build what a release publishes into dist/, the same bytes for a commit everywhere, and check it
	rm -rf dist
	for folder in . clients/python; do \
	  (cd $$folder && SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(TOOLS)/bin/python -m hatchling build --directory $(CURDIR)/dist) || exit; \
	done
	$(TOOLS)/bin/twine check --strict dist/*
	npm install --prefix clients/typescript --ignore-scripts --no-audit --no-fund
	umask 022 && npm pack --pack-destination dist ./clients/typescript  # npm keeps the rights of files

lock: $(VENV)/dev ## resolve the packages of the images, write their hashes to locks/ and their licenses to docs/
	@$(INSTALL) uv
	$(LOCK) pyproject.toml --extra traces --extra registry --output-file locks/cpu.txt
	$(LOCK) pyproject.toml --extra traces --extra registry --extra gpu --output-file locks/gpu.txt \
	  $$(sed -n 's/^\([a-z0-9-]*\)[^ ]*==.*/--no-emit-package \1/p' locks/cpu.txt)
	sed -i 's/^#    make lock$$/&\n-r cpu.txt/' locks/gpu.txt
	echo hatchling | $(LOCK) - --output-file locks/build.txt
	printf 'cyclonedx-bom\npip-audit\nsigstore\ntwine\n' | $(LOCK) - --output-file locks/supply.txt
	$(BIN)/python -m deploy.licenses

image: $(VENV)/dev ## run the Dockerfile for CPUs without a container engine; needs root, takes two minutes
	IMAGE_DOWNLOADS=1 $(BIN)/python -m pytest tests/test_image.py $(ARGS)

bench: $(VENV)/dev ## measure one table of docs/performance.md: ARGS="als --ratings …"; without ARGS list them
	$(BIN)/python -m benchmarks $(ARGS)

loadtest: $(VENV)/dev ## start a service, measure it under load, and plot the results
	$(BIN)/python -m loadtest $(ARGS)

faults: $(VENV)/dev ## inject faults (kill and freeze processes, fill the disk), TRIALS times (200); prints a table
	FAULT_TRIALS=$(or $(TRIALS),200) $(BIN)/python -m pytest tests/faults tests/simulation tests/gpu/test_any_data.py tests/service/base/test_imports.py tests/service/api/test_growth.py --timeout 7200 $(ARGS)

mutants: $(VENV)/dev ## change code at 300 places, and see which tests notice: ARGS="service/storage/log --tests tests/service/storage/log"
	$(BIN)/python -m tests.mutants $(ARGS)

soak: $(VENV)/dev ## run mixed load and trainings for MINUTES (30); prints which resources grow
	$(BIN)/python -m tests.faults.soak --minutes $(or $(MINUTES),30)

clean: ## remove the environment, the demo's data and all caches
	rm -rf $(VENV) demo-data .mypy_cache .ruff_cache .pytest_cache .hypothesis .numba-cache .cache site clients/typescript/node_modules

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.platform != "linux")' || \
	  { echo 'Nearfield runs on Linux; on other systems use the container: docs/deployment.md#containers'; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' || \
	  { echo 'Nearfield needs Python 3.11 to 3.14: make PYTHON=python3.14'; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo 'Python cannot create environments here: apt-get install python3-venv'; exit 1; }
	@$(PYTHON) -c 'import ctypes; ctypes.CDLL("libgomp.so.1")' 2>/dev/null || \
	  { echo 'The OpenMP runtime is missing: apt-get install libgomp1'; exit 1; }
	@echo 'Creating the environment in $(VENV)'
	@$(PYTHON) -m venv $(VENV)

$(TOOLS)/installed: locks/build.txt locks/supply.txt
	$(PYTHON) -m venv --clear $(TOOLS)
	$(TOOLS)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: $(patsubst %,--requirement %,$^)
	@touch $@

$(VENV)/base: $(BIN)/python pyproject.toml constraints.txt
	@echo 'Installing Nearfield and its dependencies'
	@$(INSTALL) --editable .
	@touch $@

$(VENV)/dev: $(VENV)/base
	@echo 'Installing the tools for development'
	@$(INSTALL) --editable '.[dev]'
	@touch $@

