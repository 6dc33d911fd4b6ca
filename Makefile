# A thin front for people: scripts, CMake and CTest do the work. Each target installs what it needs and lacks.

JOBS ?= $(shell nproc 2>/dev/null || echo 2)
FUZZ_SECONDS ?= 30
MINUTES ?= 10
PREFIX ?= /usr/local
export JOBS

.PHONY: help build install uninstall test test-full test-guarded test-emulated test-slurm bench validate demo format lint fuzz soak bundle deb docs clean

build: ## the program, build/trireme
	@scripts/install-deps.sh
	@cmake --preset release >/dev/null
	@cmake --build --preset release --parallel $(JOBS)

install: ## program, library, manual pages, completion, presets: PREFIX=/usr/local (DESTDIR=...)
	@test -x build/trireme || $(MAKE) --no-print-directory build
	@cmake --install build --prefix "$(PREFIX)"

uninstall: ## what the last `make install` put there
	@cmake --build build --target uninstall

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1	\2/p' $(MAKEFILE_LIST) | expand -t 20

test: ## every test but those of test-full; of long lists of cases a share, drawn by TRIREME_TEST_SEED
	@scripts/install-deps.sh --tests
	@scripts/python-env.sh
	@$(MAKE) --no-print-directory build
	@scripts/test.sh

test-full: ## all tests, and all of their cases, also against the newest PyTorch and transformers (downloads gigabytes)
	@scripts/install-deps.sh --tests
	@scripts/python-env.sh
	@scripts/python-env.sh --full
	@$(MAKE) --no-print-directory build
	@TRIREME_LAYOUTS=all scripts/test.sh -C full

test-guarded: ## the tests of training, saving and reading once more on the device that punishes mistakes with its memory
	@scripts/install-deps.sh --tests
	@scripts/python-env.sh
	@$(MAKE) --no-print-directory build
	@TRIREME_LAYOUTS=all scripts/test.sh -C guarded --label-regex '^guarded$$'

test-emulated: ## the tests of training, saving and reading once more on the GPU's kernels, which run on the CPU there; hours
	@scripts/install-deps.sh --tests
	@scripts/python-env.sh
	@$(MAKE) --no-print-directory build
	@scripts/test.sh -C emulated --label-regex '^emulated$$'

test-slurm: ## the batch script of Slurm under a real Slurm, two nodes on this machine; root, some minutes
	@scripts/install-deps.sh --tests --slurm
	@scripts/python-env.sh
	@$(MAKE) --no-print-directory build
	@TRIREME=$(CURDIR)/build/trireme TRIREME_TOOLS=$(CURDIR)/build/tools python3 tests/run_pytest.py tests/launch/test_slurm.py || [ $$? = 77 ]

validate: build ## published results beside what is predicted for them: docs/validation.md
	@build/trireme validate --out docs/validation.md && cat docs/validation.md

bench: ## speed and memory beside PyTorch's, on this machine
	@test -f tests/bench/bench.py || { echo "make bench: tests/bench/bench.py is not there" >&2; exit 1; }
	@scripts/install-deps.sh --bench
	@scripts/python-env.sh --full
	@$(MAKE) --no-print-directory build
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

soak: ## random runs disturbed in every way, for MINUTES (10); SEED=n repeats one (docs/reliability.md)
	@scripts/install-deps.sh --soak
	@$(MAKE) --no-print-directory build
	@TRIREME=$(CURDIR)/build/trireme python3 tests/soak/soak.py --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

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
