# Every target sets up .venv by itself, anew only when pyproject.toml or the constraints changed.

# Any Python from 3.11 on; `make PYTHON=/path/to/python` names one.
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11; do \
  $$python -c '$(PYTHON_IS_NEW)' 2>/dev/null && echo $$python && break; done)
PYTHON_IS_NEW := import sys; sys.exit(sys.version_info < (3, 11))

# What is passed on: make demo ARGS='--json report.json'
ARGS ?=

CONSTRAINTS := requirements/constraints.txt
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# Most tests wait most of the time: two processes share them. `make test WORKERS=0` runs them in one, in order.
WORKERS ?= 2
PYTEST = $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help demo pipeline-demo test cluster-test faults lint bench clean install lock

help: ## list these targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1\t\2/p' Makefile | expand -t 20

demo: $(READY) ## the main job, end to end, on an embedded server
	$(BIN)/sharedroutes demo $(ARGS)

pipeline-demo: $(READY) ## failures on purpose, kept by Spark and reported; needs Java 17 or newer
	$(BIN)/sharedroutes pipeline demo $(ARGS)

test: lint ## everything that must be green: lint, types, layers, tests
	$(PYTEST) $(ARGS)

# On Debian's server whatever SHAREDROUTES_REDIS_SERVER says: the others have no Sentinel and no TLS.
cluster-test: $(READY) ## the registry on a Cluster, under Sentinels, over TLS, through failovers
	$(PYTEST) tests/cluster --cluster $(ARGS)
	$(PYTEST) tests/registry tests/client/test_client_*.py --topology cluster -m 'not large' $(ARGS)

faults: $(READY) ## the agent through kills, pauses, partitions and clock steps; needs faketime
	$(PYTEST) tests/faults --faults $(ARGS)

lint: $(READY) ## ruff, mypy --strict, import-linter
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

bench: $(READY) ## the benchmarks, with ratios
	$(BIN)/python -m benchmarks all $(ARGS)

clean: ## remove .venv, caches and what was built
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -prune -exec rm -rf {} +

install: $(READY) ## set up .venv and nothing else

lock: ## renew the constraints: today's version of everything that is installed
	@$(call require_python)
	$(PYTHON) -m venv $(VENV)/lock
	$(VENV)/lock/bin/python -m pip install --quiet --upgrade uv
	echo pip | $(VENV)/lock/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 --extra test \
	  --no-annotate --custom-compile-command 'make lock' --output-file $(CONSTRAINTS) pyproject.toml -
	rm -rf $(VENV)/lock

define require_python
if ! $(PYTHON) -c '$(PYTHON_IS_NEW)' 2>/dev/null; then \
  echo 'no Python 3.11 or newer found (PYTHON=$(PYTHON)): install one, or make PYTHON=/path/to/python' >&2; exit 1; fi
endef

# pip is asked for by name: it changes only if it is not the version that the constraints name. The warning that is
# ignored is setuptools' general advice about editable installs; tests/test_wheel.py makes its warnings errors.
$(READY): pyproject.toml $(CONSTRAINTS)
	@$(call require_python)
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --constraint $(CONSTRAINTS) pip
	PYTHONWARNINGS=ignore::UserWarning $(BIN)/python -m pip install --quiet --constraint $(CONSTRAINTS) \
	  --build-constraint $(CONSTRAINTS) --editable '.[test]'
	@touch $@
