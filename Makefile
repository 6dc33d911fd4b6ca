# A thin front for people: scripts, CMake and CTest do the work. Each target installs what it needs and lacks.

JOBS ?= $(shell nproc 2>/dev/null || echo 2)
FUZZ_SECONDS ?= 30
MINUTES ?= 10
TEST_MINUTES ?= 8
PREFIX ?= /usr/local
export JOBS

.PHONY: help build build-tests install uninstall tests-ready tests-ready-full test test-one test-all test-costs test-full test-guarded test-emulated test-slurm check-all bench validate demo format lint fuzz soak bundle deb docs clean

build: ## the program, build/trireme, and libtrireme
	@scripts/install-deps.sh
	@cmake --preset release >/dev/null
	@cmake --build --preset release --parallel $(JOBS) --target product

build-tests: ## all that tests need, too: build/trireme-test, which has two devices for tests, and the test programs
	@scripts/install-deps.sh --tests
	@cmake --preset release >/dev/null
	@cmake --build --preset release --parallel $(JOBS)

install: ## program, library, manual pages, completion, presets: PREFIX=/usr/local (DESTDIR=...)
	@test -x build/trireme || $(MAKE) --no-print-directory build
	@cmake --install build --prefix "$(PREFIX)"

uninstall: ## what the last `make install` put there (PREFIX=, DESTDIR=: refuses if that was elsewhere)
	@cmake -DMANIFEST=build/install_manifest.txt \
	  $(if $(filter command environment%,$(origin PREFIX)),"-DPREFIX=$(PREFIX)") -P cmake/uninstall.cmake

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1	\2/p' $(MAKEFILE_LIST) | expand -t 22

# What the tests need: their own packages and Python environment, and the build.
tests-ready:
	@scripts/install-deps.sh --tests
	@scripts/python-env.sh
	@$(MAKE) --no-print-directory build-tests

tests-ready-full: tests-ready
	@scripts/install-deps.sh --full
	@scripts/python-env.sh --full

test: tests-ready ## builds, then TEST_MINUTES (8) of tests: the core, what has changed, a share of the rest (docs/testing.md)
	@scripts/test.sh --minutes $(TEST_MINUTES)

test-one: tests-ready ## one test as CI runs it: T=unit/test_metrics, T=oracle/test_context::test_matrix
	@test -n "$(T)" || { echo "make test-one: name the test, for example T=oracle/test_context::test_matrix; scripts/test.sh --list prints all names" >&2; exit 2; }
	@scripts/test.sh --verbose "$(T)"

test-all: tests-ready ## all cases that make test chooses from
	@scripts/test.sh

test-costs: tests-ready ## all of them, on a quiet machine, and what each took into tests/costs.json
	@scripts/test.sh --measure

test-full: tests-ready-full ## all cases with all of their layouts, also beside the newest PyTorch and transformers (gigabytes)
	@TRIREME_LAYOUTS=all scripts/test.sh unit comm gpu floors oracle guarded emulated full

test-guarded: tests-ready ## training, saving and reading once more on the device that punishes mistakes with its memory
	@TRIREME_LAYOUTS=all scripts/test.sh guarded-all

test-emulated: tests-ready ## training, saving and reading once more on the GPU's kernels, which run on the CPU there; hours
	@scripts/test.sh emulated-all

test-slurm: tests-ready ## the batch script of Slurm under a real Slurm, two nodes on this machine; root, some minutes
	@scripts/install-deps.sh --tests --slurm
	@scripts/test.sh --verbose slurm

check-all: ## before a release: all tests, on all devices, and all steps of .ci/run, however long they take
	@$(MAKE) --no-print-directory test-full
	@$(MAKE) --no-print-directory test-guarded
	@$(MAKE) --no-print-directory test-emulated
	@$(MAKE) --no-print-directory test-slurm
	@.ci/run --all

validate: build ## published results beside what is predicted for them: docs/validation.md
	@build/trireme validate --out docs/validation.md && cat docs/validation.md

bench: ## speed and memory beside PyTorch's, on this machine
	@test -f tests/bench/bench.py || { echo "make bench: tests/bench/bench.py is not there" >&2; exit 1; }
	@scripts/install-deps.sh --bench
	@scripts/python-env.sh --full
	@$(MAKE) --no-print-directory build-tests
	@TRIREME=$(CURDIR)/build/trireme TRIREME_TOOLS=$(CURDIR)/build/tools build/venv-full/bin/python3 tests/bench/bench.py
	@TRIREME=$(CURDIR)/build/trireme TRIREME_TOOLS=$(CURDIR)/build/tools build/venv-full/bin/python3 tests/bench/bench_scaling.py
	@TRIREME=$(CURDIR)/build/trireme TRIREME_TOOLS=$(CURDIR)/build/tools build/venv-full/bin/python3 tests/bench/bench_checkpoint.py
	@TRIREME=$(CURDIR)/build/trireme TRIREME_TOOLS=$(CURDIR)/build/tools build/venv-full/bin/python3 tests/bench/bench_plan.py
	@TRIREME=$(CURDIR)/build/trireme TRIREME_TOOLS=$(CURDIR)/build/tools build/venv-full/bin/python3 tests/bench/bench_predict.py
	@TRIREME=$(CURDIR)/build/trireme TRIREME_TOOLS=$(CURDIR)/build/tools build/venv-full/bin/python3 tests/bench/bench_suggest.py
	@TRIREME=$(CURDIR)/build/trireme TRIREME_TOOLS=$(CURDIR)/build/tools build/venv-full/bin/python3 tests/bench/bench_tune.py frontier
	@TRIREME=$(CURDIR)/build/trireme TRIREME_TOOLS=$(CURDIR)/build/tools build/venv-full/bin/python3 tests/bench/bench_tune.py machine

demo: ## from real text to a trained model that writes
	@scripts/install-deps.sh --demo
	@$(MAKE) --no-print-directory build
	@scripts/demo.sh

format: ## lay out the C sources
	@scripts/install-deps.sh --lint
	@scripts/format.sh

lint: ## the layout checked, and clang-tidy over every file
	@scripts/install-deps.sh --lint --fuzz
	@scripts/format.sh --check
	@scripts/lint.sh

fuzz: ## each fuzzer for FUZZ_SECONDS (30)
	@scripts/install-deps.sh --fuzz
	@scripts/fuzz.sh $(FUZZ_SECONDS)

soak: ## random runs disturbed in every way, for MINUTES (10), and a server; SEED=n repeats one (docs/reliability.md)
	@scripts/install-deps.sh --soak
	@$(MAKE) --no-print-directory build
	@TRIREME=$(CURDIR)/build/trireme python3 tests/soak/soak.py --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))
	@TRIREME=$(CURDIR)/build/trireme python3 tests/soak/serve.py $(if $(SEED),--seed $(SEED))

bundle: ## the program with all that it needs in one file, for a machine that has nothing of it
	@scripts/install-deps.sh --bundle
	@scripts/bundle.sh

deb: ## Debian packages of HEAD in build/debian, and whether they hold together
	@scripts/debian-package.sh

docs: ## the documentation site, build/docs/html
	@scripts/install-deps.sh --docs
	@$(MAKE) --no-print-directory build
	@cmake --build --preset release --target docs

clean: ## remove build/ (runs/ and corpus/ stay)
	@rm -rf build
