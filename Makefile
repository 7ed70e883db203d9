# Everything runs in .venv, which holds the exact versions of requirements.lock. Only Python and make are required.
# With another Python:  make test PYTHON=python3.13 VENV=.venv-3.13
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
WITH_TESTS := $(VENV)/.installed-with-tests
# On Linux without an NVIDIA driver, PyTorch's build for CPUs is requested from this index first, which saves 4 GB.
# An empty value means the default index.
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
# --no-compile: Python compiles modules when they are first imported. Compiling all takes 40 s and 400 MB.
# uv, where it is installed, takes from its cache what it has installed before.
UV := $(shell command -v uv 2> /dev/null)
PIP := $(if $(UV),$(UV) pip install --quiet --python $(BIN)/python,$(BIN)/pip install --quiet --disable-pip-version-check \
	--no-compile) --constraint requirements.lock
# sacrebleu[ko] has packages in the old style, without a pyproject.toml: pip needs --use-pep517 to install them without a warning.
FROM_HERE := $(if $(UV),,--use-pep517) --no-build-isolation --editable
# If this were set, each of a thousand processes would compile the project's code again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help install quickstart check quick test slow faults ui nightly cluster containers everything interpreter coverage docs \
	docs-check lock clean

help:
	@echo "make quickstart   train, register and try a toy translation model (minutes on two cores)"
	@echo "make quick        the tests that the changed files reach, a minute at most (SINCE=REVISION: changed since then)"
	@echo "make test         format, lint, types, and all tests except the groups below"
	@echo "make slow         the tests that take long and rarely break: environments, schedules, PostgreSQL, Dask"
	@echo "make faults       the tests that kill training and fill disks (minutes)"
	@echo "make ui           the tests that drive the Prefect UI in Chromium (Debian: apt-get install chromium)"
	@echo "make containers   build the images on Debian and test them and the stack, as root (half an hour)"
	@echo "make nightly      the tests that repeat at length what others check in part (minutes)"
	@echo "make cluster      the tests on a Slurm cluster of two nodes and a network of hosts, all on this machine (Linux, root)"
	@echo "make everything   all of these at once, except containers, nightly and cluster, which takes less time than one by one"
	@echo "make interpreter  what a change of Python may break: types, pickling, processes and signals"
	@echo "make check        only format, lint, layers of imports and types"
	@echo "make install      only the environment in .venv, without the packages that tests need"
	@echo "make coverage     the share of lines and branches that the tests reach, by package (an hour or more)"
	@echo "make docs         serve the documentation on this machine, until Ctrl-C"
	@echo "make docs-check   build the documentation strictly, and check its links"
	@echo "make lock         choose new versions for requirements.lock"
	@echo "make clean        remove .venv, .venv-* and caches, but not the results in .nmt"

install: $(INSTALLED)

# An existing environment keeps its Python: another one would mix the libraries of both.
$(INSTALLED): requirements.lock pyproject.toml
	@$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11))" || \
		{ echo "$(PYTHON) is older than Python 3.11: name another, as in  make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -c "import ensurepip" 2> /dev/null || \
		{ echo "$(PYTHON) has no ensurepip, which venv needs: install it, on Debian by  apt-get install python3-venv"; exit 1; }
	[ -x $(BIN)/python ] || $(PYTHON) -m venv $(VENV)
	$(PIP) setuptools
	@if [ -n "$(TORCH_INDEX)" ] && [ "$$(uname -s)" = Linux ] && [ ! -e /proc/driver/nvidia/version ] && \
			! command -v nvidia-smi > /dev/null && ! $(BIN)/python -c "import torch" 2> /dev/null; then \
		$(PIP) --no-deps $(if $(UV),,--retries 0 --timeout 15) --index-url "$(TORCH_INDEX)" torch 2> /dev/null || \
			echo "PyTorch for CPUs cannot be installed from $(TORCH_INDEX): installing the build with CUDA"; \
	fi
	$(PIP) $(FROM_HERE) '.[korean]'
	@touch $@

$(WITH_TESTS): $(INSTALLED)
	$(PIP) $(FROM_HERE) '.[dev]'
	@touch $@

quickstart: $(INSTALLED)
	$(BIN)/nmt run quickstart

check: $(WITH_TESTS)
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/lint-imports --cache-dir $(VENV)/.import-linter
	$(BIN)/mypy

quick: $(WITH_TESTS)
	files=$$(PYTHONPATH=tests $(BIN)/python -m support.reach --since $(or $(SINCE),HEAD)) && \
		{ [ -z "$$files" ] || $(BIN)/pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder $$files; }

# Three processes on two cores: some tests only wait for a server or for a process to die. The slow files come first.
test: check
	$(BIN)/pytest --numprocesses 3 --dist loadfile --no-loadscope-reorder --durations 40

slow: $(WITH_TESTS)
	$(BIN)/pytest -m slow --numprocesses 3 --dist loadfile --no-loadscope-reorder --durations 0

faults: $(WITH_TESTS)
	$(BIN)/pytest -m faults --numprocesses 3 --dist loadfile --no-loadscope-reorder --durations 0

ui: $(WITH_TESTS)
	$(BIN)/pytest -m ui --numprocesses 2 --dist loadfile --no-loadscope-reorder --durations 0

# With Podman from Debian as root, without systemd and without a registry. Missing programs are installed.
containers: $(WITH_TESTS)
	@wanted=$$(PYTHONPATH=tests $(BIN)/python -c \
		"from support import containers; print(*containers.PROGRAMS if containers.missing() else ())"); \
	[ -z "$$wanted" ] || { apt-get update --quiet && \
		DEBIAN_FRONTEND=noninteractive apt-get install --quiet --yes --no-install-recommends $$wanted; }
	$(BIN)/pytest -m containers tests/containers --durations 0

nightly: $(WITH_TESTS)
	$(BIN)/pytest -m nightly --numprocesses 2 --dist load --durations 0

# Debian's packages are installed if they are missing and this is root. Otherwise the tests name what is missing.
CLUSTER_PACKAGES := slurmctld slurmd slurm-client munge iproute2
cluster: $(WITH_TESTS)
	@missing=; for program in slurmctld slurmd sbatch munged ip; do command -v $$program > /dev/null || missing=1; done; \
	if [ -n "$$missing" ]; then \
		if [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
			apt-get update --quiet && DEBIAN_FRONTEND=noninteractive apt-get install --quiet --yes \
				--no-install-recommends -o DPkg::Lock::Timeout=300 $(CLUSTER_PACKAGES); \
		else \
			echo "Slurm is not installed here, and only root can install it: apt-get install $(CLUSTER_PACKAGES)"; exit 1; \
		fi; \
	fi
	$(BIN)/pytest -m cluster tests/cluster tests/integration/operations --durations 0

everything: check
	$(BIN)/pytest -m "not nightly and not cluster and not containers" --numprocesses 3 --dist loadfile --no-loadscope-reorder --durations 60

# Files that pickle, fork, launch or signal. What the other files of these folders compute is the same on any Python.
# Types are checked because a newer Python may have a newer NumPy, whose types differ.
OF_THE_INTERPRETER := $(addprefix tests/,unit/flows/launchers distributed/test_a_shared_folder.py distributed/test_two_processes.py \
	$(patsubst %,unit/train/test_%.py,average checkpoint device launch reading restarts sharing spent start status stop_and_keep threads))
interpreter: $(WITH_TESTS)
	$(BIN)/mypy
	$(BIN)/pytest $(OF_THE_INTERPRETER) -m "not slow and not nightly" --numprocesses 2 --dist loadfile --no-loadscope-reorder \
		--durations 20

# Covers all processes that tests start. For some tests only:  make coverage ONLY=tests/unit/search
ONLY ?= -m "not nightly and not cluster and not containers"
coverage: $(WITH_TESTS)
	rm -rf .coverage-data && mkdir .coverage-data
	COVERAGE_FILE=$(CURDIR)/.coverage-data/of $(BIN)/coverage run -m pytest $(ONLY) --numprocesses 3 --dist loadfile --no-loadscope-reorder
	COVERAGE_FILE=$(CURDIR)/.coverage-data/of $(BIN)/coverage combine --quiet
	COVERAGE_FILE=$(CURDIR)/.coverage-data/of $(BIN)/coverage json --quiet -o .coverage-data/lines.json
	PYTHONPATH=tests $(BIN)/python -m support.covered .coverage-data/lines.json

# On any free port. Generated pages are written first. A page that is saved in docs/ is shown at once.
docs: $(WITH_TESTS)
	$(BIN)/python docs/generate.py
	port=$$($(BIN)/python -c "import socket; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1])") && \
		exec $(BIN)/zensical serve --dev-addr 127.0.0.1:$$port

docs-check: $(WITH_TESTS)
	$(BIN)/python docs/generate.py
	$(BIN)/zensical build --clean --strict
	$(BIN)/python docs/check.py site

# torch is held back: its later releases are not tested with the rest.
lock: $(WITH_TESTS)
	$(BIN)/pip install --quiet uv
	echo "torch==2.13.0" > $(VENV)/constraints.txt
	$(BIN)/uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 --quiet --no-header --no-annotate \
		--constraint $(VENV)/constraints.txt | grep -vE "^(nvidia|cuda)" > $(VENV)/versions.txt
	{ grep "^#" requirements.lock; cat $(VENV)/versions.txt; } > $(VENV)/lock.txt && mv $(VENV)/lock.txt requirements.lock

clean:
	rm -rf .venv .venv-* build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage-data
