# make demo   install what is needed, serve the default model, answer a batch, compare, drain
# make demo-grammars   the same with a text of every grammar in grammars/, each parsed back by Lark
# make test   install what is needed, then formatting, lint, types, import contracts and all tests

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
TORCH := torch==2.13.0
WORKERS ?= 2

.PHONY: demo demo-grammars test test-long check format proto clean

demo: $(STAMP)
	$(BIN)/python -m examples.demo

demo-grammars: $(STAMP)
	$(BIN)/python -m examples.demo_grammars

# Two tests at a time, each on one core; WORKERS=8 where there are cores and memory (2 GiB each).
test: check
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal

# Many more random schemas and walks, every sampler by itself, and Gemma 3 270M, whose weights are
# fetched (240 MB, under the Gemma terms of use); about half an hour.
test-long: $(STAMP)
	GUIDED_TESTS=long $(BIN)/python -m pytest tests/property tests/conformance \
		tests/engine/test_sampling_law.py tests/engine/test_real_gemma3.py --timeout 3600

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mypy proto/generate.py
	$(BIN)/lint-imports

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

proto: $(STAMP)
	$(BIN)/python proto/generate.py

# torch comes first and by its exact version: whatever depends on it would otherwise bring the
# newest build, which may be several gigabytes of CUDA.
$(STAMP): pyproject.toml constraints.txt
	@echo "== creating $(VENV) and installing what is needed (a few minutes the first time)"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --progress-bar on -c constraints.txt $(TORCH)
	$(BIN)/python -m pip install --progress-bar on -c constraints.txt -e '.[server,client,bench,dev]'
	mkdir -p $(VENV)/typing && ln -sfn ../../service $(VENV)/typing/guided_service
	ln -sfn ../../grammars $(VENV)/typing/guided_grammars
	touch $(STAMP)

clean:
	rm -rf $(VENV) build *.egg-info
