# make demo   the main job on real data: the recommended linear system and a graph network on it, scores, maps, report
# make test   format, lint, tests, types among them (notebooks first: they take longest, and must not come last);
#             make test SLOW=--slow runs all tests, among them those that repeat others in a longer way
# make docs   the documentation site, in site/
# make notebooks, make images   execute the notebooks and draw the pictures of the documentation again
# make bench-data, make bench-train, make bench-vn, make bench-zoo, make bench-models, make bench-parity   the measurements quoted in docs/

PYTHON ?= python3
BIN := .venv/bin
CONSTRAINTS ?= constraints.txt
# One more than cores, because tests wait for servers and for other processes.
WORKERS ?= $(shell $(PYTHON) -c "import os; print(os.cpu_count() + 1)")
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint $(CONSTRAINTS)

.PHONY: demo test docs notebooks images clean bench-data bench-train bench-vn bench-zoo bench-models bench-parity

demo: .venv/installed
	$(BIN)/sstcast prepare configs/demo.yaml
	$(BIN)/sstcast train configs/demo.yaml
	$(BIN)/sstcast train configs/demo-network.yaml
	$(BIN)/sstcast evaluate runs/demo > /dev/null
	$(BIN)/sstcast evaluate runs/demo-network --against runs/demo
	$(BIN)/sstcast map runs/demo runs/demo-network > /dev/null
	$(BIN)/sstcast report runs/demo-network

test: .venv/installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder $(SLOW) --nbmake notebooks tests

docs: .venv/installed-dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo site/index.html

notebooks: .venv/installed-dev
	$(BIN)/python notebooks/store.py

images: .venv/installed-dev
	$(BIN)/python docs/images.py

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	@echo "installing into .venv: this takes minutes the first time"
	$(INSTALL) --editable .
	touch $@

.venv/installed-dev: .venv/installed
	$(INSTALL) --editable '.[dev]'
	touch $@

bench-data: .venv/installed
	$(BIN)/python perf/fetch.py
	$(BIN)/python perf/prepare.py

bench-train: .venv/installed
	$(BIN)/python perf/training_step.py

bench-vn: .venv/installed
	$(BIN)/python perf/virtual_node.py

bench-zoo: .venv/installed
	$(BIN)/python perf/small_presets.py

bench-models: .venv/installed
	$(BIN)/python perf/attention.py

bench-parity: .venv/installed
	$(BIN)/python perf/beside_pyg.py

clean:
	rm -rf .venv data/prepared runs
