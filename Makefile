# Every target does its own set-up; it needs python3 (3.11 or newer), make and git, nothing else.
# Arguments for a target's program go in ARGS: make test ARGS="tests/unit -k retry"

MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help
.SUFFIXES:
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
UV := build/tools/uv
READY := $(VENV)/.synced
PYTHON_CODE := src services examples tests tools benchmarks
ARGS ?=

export UV_PROJECT_ENVIRONMENT := $(CURDIR)/$(VENV)
export PYTHONUNBUFFERED := 1
export PATH := $(CURDIR)/$(BIN):$(PATH)
unexport VIRTUAL_ENV PYTHONHOME PYTHONPATH
# Set in many images. Each process would compile all that it imports, which takes longer than the rest
# of its start.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: $(READY) ## import real flights, kill the runner, watch it resume, see build/demo/report.html
	$(BIN)/python -m examples.flights.demo $(ARGS)

.PHONY: dev
dev: $(READY) ## run the whole mesh here with the examples (Ctrl-C stops it)
	$(BIN)/jobmesh dev --app examples.hello.app:app --app examples.flights.app:app $(ARGS)

.PHONY: check
check: lint types imports contract ## everything that is checked without running

.PHONY: lint
lint: $(READY) ## ruff's rules and format; the lock file is up to date
	$(UV) lock --check --offline --quiet
	$(BIN)/ruff check
	$(BIN)/ruff format --check

.PHONY: types
types: $(READY) ## mypy, strict
	$(BIN)/mypy $(PYTHON_CODE)

.PHONY: imports
imports: $(READY) ## import-linter: who may import whom
	$(BIN)/lint-imports --no-logo

.PHONY: contract
contract: $(READY) ## buf lint, format and breaking; drift of the generated stubs
	$(BIN)/python tools/protos.py check

.PHONY: format
format: $(READY) ## format Python and protos in place
	$(BIN)/ruff check --fix-only --quiet
	$(BIN)/ruff format
	$(BIN)/buf format protos --write

.PHONY: test
# Tests wait for processes more than they compute: three workers suit two cores. A file stays with one.
WORKERS ?= 3
test: $(READY) ## all tests, on real PostgreSQL and NATS (WORKERS=0: one after the other)
	$(BIN)/pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(ARGS)

# By hand: make faults SEED=7 MINUTES=10 [RATE=300] [FAULTS=10] [KINDS=runner,nats.wipe]
.PHONY: faults
faults: $(READY) ## hurt a mesh under load, check its history (SEED= MINUTES= …; TABLE=1: each fault alone)
ifdef TABLE
	JOBMESH_FAULTS_FULL=1 $(BIN)/pytest -p no:randomly -o faulthandler_timeout=0 --log-cli-level INFO -v \
		$(or $(FAULT_TESTS),$(TABLE_TESTS)) $(ARGS)
else
	$(BIN)/python -m tests.faults $(FAULT_OPTIONS) $(ARGS)
endif

TABLE_TESTS = tests/faults/test_table.py tests/faults/test_surroundings.py \
	tests/integration/dispatcher/test_reconciling.py \
	tests/acceptance/one_mesh/test_shutdown.py tests/integration/scheduler/test_firing.py

FAULT_OPTIONS = $(foreach option,SEED MINUTES RATE FAULTS KINDS KEEP,\
	$(if $($(option)),--$(call lower,$(option))=$($(option))))
lower = $(shell echo $(1) | tr A-Z a-z)

.PHONY: bench
bench: $(READY) ## measure, beside the floors of PostgreSQL, NATS and gRPC
	$(BIN)/python -m benchmarks $(ARGS)

.PHONY: protos
protos: $(READY) ## generate the stubs in src/jobmesh/v1
	$(BIN)/python tools/protos.py generate

.PHONY: protos-release
protos-release: $(READY) ## make today's contract the one that must not be broken
	$(BIN)/python tools/protos.py release

.PHONY: clean
clean: ## remove what was built (not .jobmesh, the data of `make dev`)
	rm -rf build dist $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find src services examples tests tools benchmarks -name __pycache__ -prune -exec rm -rf {} +

$(UV):
	python3 tools/get_uv.py $@

# Only when something changed: a file stamps the last good run.
$(READY): pyproject.toml uv.lock | $(UV)
	$(UV) sync --frozen --no-progress
	@touch $@
