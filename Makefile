# `make demo`, `make test` and `make test-all` need only Python 3.11 or later; the other targets are for development.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

VENV := .venv
PYTHON := $(VENV)/bin/python
READY := $(VENV)/ready
# Brokers start from bytecode, even if the environment forbids it: tests start hundreds of them.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help
help:  ## Show the targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-14s %s\n", $$1, $$2}' Makefile

.PHONY: demo
demo: setup  ## Run a cluster of three brokers, kill a leader half way, and check that nothing is lost.
	@$(VENV)/bin/strandline demo $(ARGS)

# Tests of processes wait for them part of their time, so there is one worker more than cores. What stays together and
# what begins first is in tests/workers.py.
WORKERS = $(shell $(PYTHON) -c 'import os; print(min(len(os.sched_getaffinity(0)) + 1, 4))')
PYTEST = $(PYTHON) -m pytest --numprocesses=$(WORKERS) --dist=loadfile

.PHONY: test
test: setup  ## Run the quick tests, 9 minutes on two cores. ARGS goes to pytest: make test ARGS="tests/broker -x -n 0"
	@$(PYTEST) -m "not slow and not containers" --hypothesis-profile=quick $(ARGS)

.PHONY: test-all
test-all: setup  ## Run every test that needs no container; ARGS as for test.
	@$(PYTEST) $(ARGS)

.PHONY: chaos
chaos: setup  ## Run tests and rounds of faults in containers: needs a Docker engine, or root on Debian to start one.
	@# ARGS are for the rounds: make chaos ARGS="--rounds 10 --seconds 60"
	@$(PYTHON) -m strandline_lab.chaos.containers $(SHELL) -c '$(PYTHON) -m pytest -m containers --numprocesses=0 tests/chaos && $(PYTHON) -m strandline_lab chaos --containers $(ARGS)'

.PHONY: fuzz
fuzz: setup  ## Send 100,000 hostile inputs to each port, for an hour or more: make fuzz ARGS="-k handshake"
	@$(PYTHON) -m pytest -n 0 --timeout 7200 --fuzz-inputs 100000 tests/integration/hostile $(ARGS)

.PHONY: simulate
simulate: setup  ## Run seeds of the simulation: make simulate ARGS="--seeds 100 --jobs 2". docs/understand/simulation.md.
	@$(VENV)/bin/strandline-lab simulate $(ARGS)

.PHONY: simulate-proof
simulate-proof: setup  ## Show which mutations of the code the simulation finds: ARGS=--known takes 3 minutes, without it hours.
	@$(PYTHON) -m strandline_lab.simulation.proof $(ARGS)

.PHONY: soak
soak: setup  ## Harm clusters for hours: make soak ARGS="--hours 8". docs/understand/chaos.md.
	@$(VENV)/bin/strandline-lab chaos $(ARGS)

.PHONY: check
check: setup  ## Run every static check: format, lint, types, layers, generated code, docs, tidiness.
	@$(PYTHON) -m checks $(ARGS)

.PHONY: bench
bench: setup  ## Measure (docs/run/performance.md says what).
	@$(PYTHON) -m strandline_lab.bench $(ARGS)

.PHONY: bench-guard
bench-guard: setup  ## Is the working tree slower than main? COMMIT=… for a commit, ROUNDS=…; CONTRIBUTING.md.
	@$(PYTHON) -m strandline_lab.bench.guard $(if $(COMMIT),--commit $(COMMIT)) $(if $(ROUNDS),--rounds $(ROUNDS)) $(ARGS)

.PHONY: interop
interop: setup  ## Run other projects' Kafka clients and suites: make interop SUITES=folder ARGS=kcat. CONTRIBUTING.md.
	@$(PYTHON) -m strandline_lab.interop --suites $(or $(SUITES),suites) $(ARGS)

KAFKA_CLIENTS := org.apache.kafka:kafka-clients:4.4.0
MESSAGES := .interop/messages
.PHONY: kafka-messages
kafka-messages: setup  ## Compare the declared messages with those of Kafka's own clients, by Maven. CONTRIBUTING.md.
	@mvn -q -B dependency:copy -Dartifact=$(KAFKA_CLIENTS) -DoutputDirectory=$(CURDIR)/$(MESSAGES)
	@$(PYTHON) -m strandline_lab.interop.messages $(MESSAGES)/kafka-clients-*.jar

.PHONY: conformance
conformance: setup  ## Send the same requests to strandline and to Apache Kafka: make conformance ARGS=Metadata. CONTRIBUTING.md.
	@$(PYTHON) -m strandline_lab.conformance $(ARGS)

.PHONY: setup
setup: $(READY)  ## Put the pinned environment into .venv; done again only when the lock or a pyproject.toml changes.

$(READY): requirements.lock pyproject.toml lab/pyproject.toml
	@python=; for candidate in python3 python3.14 python3.13 python3.12 python3.11; do \
	  if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then python=$$candidate; break; fi; \
	done; \
	if [ -z "$$python" ]; then echo 'strandline needs Python 3.11 or later, and none is on PATH.' >&2; exit 1; fi; \
	if [ ! -x $(PYTHON) ]; then \
	  echo "setup 1/3: a new environment in $(VENV), $$($$python --version)"; \
	  "$$python" -m venv $(VENV) || { echo 'This Python cannot make environments; on Debian: apt-get install python3-venv' >&2; rm -rf $(VENV); exit 1; }; \
	else \
	  echo "setup 1/3: $(VENV) is there"; \
	fi
	@echo 'setup 2/3: the packages of requirements.lock (the first time a minute or two; PySpark is large, it carries ZooKeeper)'
	@$(PYTHON) -m pip install --progress-bar off --disable-pip-version-check --require-hashes -r requirements.lock \
	  | sed -u -nE -e 's/^(Collecting [^ ]+).*/  \1/p' -e 's/^ *(Building wheels?) for .*/  \1/p' -e 's/^(Installing collected packages).*/  \1/p'
	@echo 'setup 3/3: strandline and its laboratory, editable'
	@# The import path names the clone: setuptools' own finder would lose to a script's folder that contains the clone.
	@$(PYTHON) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation \
	  --config-settings editable_mode=compat --editable . --editable lab
	@touch $@

.PHONY: proto
proto: setup  ## Make strandline/rpc from proto/.
	@PATH="$(CURDIR)/.venv/bin:$$PATH" $(PYTHON) -m grpc_tools.protoc -I proto \
	  --python_out=. --grpc_python_out=. --mypy_out=. --mypy_grpc_out=. proto/strandline/rpc/*.proto

.PHONY: docs
docs: setup  ## Rewrite the generated parts of docs/: settings, errors, commands, metrics, and the tests of each row.
	@$(PYTHON) -m checks.docs

.PHONY: docs-pictures
docs-pictures: setup  ## Make the pictures of docs/run/console.md; needs a Chromium on PATH.
	@$(PYTHON) -m tests.console.pictures

.PHONY: format
format: setup  ## Format the code, and fix what ruff can fix.
	@$(PYTHON) -m ruff check --fix --exit-zero --quiet .
	@$(PYTHON) -m ruff format .

.PHONY: lock
lock: setup  ## Make the lock files anew; add ARGS=--upgrade to take newer versions.
	@$(PYTHON) -m pip install --quiet --disable-pip-version-check --require-hashes -r checks/uv.lock
	@$(PYTHON) -m uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --group dev --extra local --extra streams --extra spark --extra security --extra oauth --extra opentelemetry --extra console --custom-compile-command 'make lock' $(ARGS) pyproject.toml -o requirements.lock
	@# The images' locks: the same versions, and only the packages that the images need.
	@pin() { $(PYTHON) -m uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --custom-compile-command 'make lock' --constraints requirements.lock "$$@"; }; \
	  echo setuptools | pin --extra security --extra oauth --extra console pyproject.toml - -o docker/strandline.lock; \
	  printf 'pyspark\njdk4py\n' | pin --no-deps - -o docker/zookeeper.lock
	@# uv itself. Another version: ARGS=--upgrade-package=uv==...
	@sed --quiet 's/^\(uv==[^ ]*\) .*/\1/p' checks/uv.lock | $(PYTHON) -m uv pip compile --quiet --universal --python-version 3.11 \
	  --generate-hashes --no-emit-index-url --custom-compile-command 'make lock' - -o checks/uv.lock.new
	@mv checks/uv.lock.new checks/uv.lock

.PHONY: clean
clean:  ## Remove the environment and the tools' caches.
	@rm -rf $(VENV) build lab/build ./*.egg-info lab/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
