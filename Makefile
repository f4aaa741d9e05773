# `make help` lists the commands. They use the virtual environment .venv, or with SPARK=3.5
# .venv-spark3.5 (docs/targets/spark-3.5.md).
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup demo demo-all run docs style lint check test test-core test-all bench wheel lock clean

PYTHON ?= $(shell command -v python3.11 || command -v python3)
SPARK ?= 4.1
ifeq ($(SPARK),4.1)
VENV := .venv
LOCK := requirements.lock
CHECKED := lint
else
VENV := .venv-spark$(SPARK)
LOCK := spark$(SPARK)/requirements.lock
INSTEAD := --override spark$(SPARK)/requirements.in
# The linters check the same files for every Spark version; mypy needs the default PySpark.
CHECKED := setup
endif
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest
SQLFLUFF := TIDEMARK_LAKE=.tidemark/lint $(BIN)/sqlfluff lint --quiet --disable-progress-bar --processes 0
# The tests run in two processes, each with its own Spark, unless TESTERS=1.
TESTERS ?= 2
SHARED := $(if $(filter-out 1,$(TESTERS)),--numprocesses $(TESTERS) --dist loadscope --no-loadscope-reorder)
# The tests of `make test-core`: a few minutes that cover most uses of Spark.
CORE := $(addprefix tests/, python $(addprefix functional/test_, convergence.py::test_tables_converge snapshots.py \
  landing.py::test_bad_rows_are_dead_letters_and_the_good_ones_land \
  landing.py::test_odd_file_names_are_read \
  job.py::test_a_job_lands_builds_tells_and_fails_with_the_tables \
  dbt_expectations.py::test_counts_are_the_known_ones))

help: ## List the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | awk -F '\t' '{printf "  make %-10s %s\n", $$1, $$2}'

setup: $(VENV)/ready ## Install Python packages, jars and dbt packages
	@$(BIN)/python -m tidemark.spark.jars
	@$(BIN)/python -m compat

# pip verifies the checksums in requirements.lock. To use mirrors, set PIP_INDEX_URL (PyPI),
# TIDEMARK_MAVEN_MIRROR (Maven Central) and DBT_PACKAGE_HUB_URL (the dbt hub).
$(VENV)/ready: $(LOCK) pyproject.toml
	@test -n "$(PYTHON)" && $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Python 3.11 was not found. Install it, or pass its path: make PYTHON=..."; exit 1; }
	@$(PYTHON) python/tidemark/spark/java.py
	@echo "Installing the Python packages into $(VENV) (about two minutes, once)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $(LOCK)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

# For the target `glue`. --no-deps, because dbt-glue requires another version of dbt-core.
$(VENV)/glue-ready: deploy/dbt-glue.lock $(VENV)/ready
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r $<
	@touch $@

demo: setup ## Load two days of sample changes into tables
	@$(BIN)/tidemark demo

demo-all: setup ## Load every domain in examples/ (about ten minutes)
	@$(BIN)/tidemark demo --all

run: setup ## Land new files and build the models that depend on them
	@$(BIN)/tidemark run

docs: setup ## Generate and serve the dbt docs
	@$(BIN)/tidemark docs

style: setup
	@$(BIN)/ruff format --check --quiet python compat tests examples models bench
	@$(BIN)/ruff check --quiet python compat tests examples models bench
	@$(BIN)/mypy
	@$(BIN)/python -m tests.lint

lint: style ## Check style and types: SQL, Python, YAML
	@$(SQLFLUFF) models tests/singular

check: style ## Check in a minute what needs no Spark: style, types, macros, the Python package
	@files=$$(git diff --name-only --diff-filter=d HEAD -- 'models/*.sql' 'tests/singular/*.sql'); \
	  test -z "$$files" || $(SQLFLUFF) $$files
	@$(PYTEST) -m 'not slow and not spark' tests/macros tests/python

test: $(CHECKED) $(VENV)/glue-ready ## Lint, then run all tests except the slow ones
	@$(PYTEST) $(SHARED) -m 'not slow'

test-core: setup ## Run the core tests, a few minutes; CI runs them on Spark 3.5
	@TIDEMARK_CASES=20 $(PYTEST) $(SHARED) -m 'not slow' $(CORE)

test-all: $(CHECKED) $(VENV)/glue-ready ## Lint, then run all tests
	@TIDEMARK_CASES=3000 TIDEMARK_BATCHES=3 TIDEMARK_SOAK_SECONDS=120 $(PYTEST) $(SHARED)

bench: setup ## Compare the run time with a hand-written Spark job
	@$(BIN)/python -m bench

# Reproducible: the same commit gives the same bytes. So the build sees what git tracks, with your
# changes, and the modes that git knows: those of this folder's files depend on your umask.
wheel: ## Build the package into dist/
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@rm -rf build dist && mkdir -p build/source
	@umask 022 && tree=$$(git stash create) \
	  && git -c tar.umask=0022 archive "$${tree:-HEAD}" | tar -xf - -C build/source \
	  && SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -m pip wheel --quiet \
	  --disable-pip-version-check --no-deps --wheel-dir dist ./build/source
	@rm -rf build && ls dist/*.whl

# The other Spark version's lock starts from the default versions, so they differ only where needed.
lock: $(VENV)/ready ## Update requirements.lock from pyproject.toml and requirements.in
	@$(BIN)/python -m pip install --quiet uv
	@test $(LOCK) = requirements.lock || cp requirements.lock $(LOCK)
	@$(BIN)/uv pip compile --quiet --no-strip-extras --generate-hashes --no-header --no-annotate --python-version 3.11 --extra aws --extra thrift pyproject.toml requirements.in $(INSTEAD) --output-file $(LOCK)

clean: ## Delete the lake and generated files, but not the landing folder
	rm -rf .tidemark .tidemark-spark* target logs dbt_packages
