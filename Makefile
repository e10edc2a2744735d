# `make help` lists the targets. Bazel builds everything compiled; .venv holds the Python tools.
SHELL := /bin/bash
.DEFAULT_GOAL := help

# Bazel and pip keep their caches under HOME; some automatic builds have none.
ifneq ($(shell [ -d "$$HOME" ] && [ -w "$$HOME" ] && echo yes),yes)
export HOME := $(CURDIR)/build/home
$(shell mkdir -p $(HOME))
endif
# The JDK that bazel-bootstrap depends on, whatever java is first on the PATH.
# Evaluated late: the first run installs it.
export JAVA_HOME = $(realpath /usr/lib/jvm/default-java)
export PYTHONPATH := $(CURDIR)/python
# The docs' theme would announce its successor in every build.
export NO_MKDOCS_2_WARNING := 1
VENV := $(CURDIR)/.venv/bin
RUN := PATH="$(VENV):$$PATH"

.PHONY: help
help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

.PHONY: deps
deps:  ## installs what is missing: Debian packages, abseil's source, .venv
	@scripts/install_deps.sh

.PHONY: build
build: deps  ## builds every target
	bazel build //...

# What a user runs; without the tests.
PRODUCT := //agent:farandole-agent //controller:farandole-controller //frameworks:libfarandole.so \
	//frameworks/jax:libfarandole_jax.so //frameworks/mxnet:libfarandole_mxnet.so \
	//frameworks/tensorflow:libfarandole_tensorflow.so //frameworks/torch:libfarandole_torch.so \
	//perf:farandole-perf

.PHONY: product
product:
	@scripts/install_deps.sh --product
	bazel build $(PRODUCT)

# What is shipped and what is tested has GPU kernels; a build does without where there is no clang.
.PHONY: kernels
kernels:
	@scripts/install_deps.sh --kernels

.PHONY: test
test: deps kernels  ## lint, build and every test; ends with "N passed, M failed"
	@scripts/install_deps.sh --lint
	@scripts/install_deps.sh --docs
	@scripts/install_deps.sh --consumers
	@scripts/install_deps.sh --kubectl
	@scripts/install_deps.sh --compose
	@$(VENV)/python scripts/run_tests.py $(AFTER)

# What everybody would miss comes first: on a slow machine there may be no time for all others, which take turns.
BESIDE := wheel-test environments
IN_TURN := test-jax test-tensorflow test-keras test-mxnet test-nccl test-rdma test-torch-floor test-kubernetes-short \
	test-dashboard test-monitoring test-gpu-on-cpu test-systemd test-apptainer test-keras-2 test-jax-floor \
	test-tensorflow-floor

.PHONY: test-all
test-all:  ## that, then what is in BESIDE and IN_TURN (needs root): what the automatic build runs; not sanitizers, nor fuzzing
	@$(MAKE) --no-print-directory test AFTER="$(if $(UNTIL),--until=$(UNTIL)) $(BESIDE) --in-turn $(IN_TURN)"

# Between edits: of the C++ tests only what a change reaches runs again.
.PHONY: test-quick
test-quick: deps  ## the C++ tests beside their sources, the tests of the API and of the tree's rules: about a minute
	bazel test --test_output=errors -- //... -//tests/...
	@$(VENV)/python -m pytest -q -n2 tests/api tests/tidy

.PHONY: images
images: wheel  ## container images as files, without Docker: build/images/*.tar (needs root); one: make images IMAGES=worker-tensorflow
	@scripts/install_deps.sh --buildah
	@$(VENV)/python scripts/build_images.py $(IMAGES)

.PHONY: test-kubernetes
test-kubernetes: wheel  ## pods on a cluster of two nodes, built from Debian's source the first time; SHORT=1: three minutes of it (needs root)
	@scripts/install_deps.sh --buildah
	@scripts/install_deps.sh --kubectl
	@scripts/install_kubernetes.sh
	@PYTHONPATH="$(PYTHONPATH):$(CURDIR)/tests/with_kubernetes" $(VENV)/python -m pytest -q -rs -s \
	  --junitxml=build/test/test-kubernetes$(if $(SHORT),-short).xml $(if $(SHORT),-m short) tests/with_kubernetes

# A command in the place of the shell: make cluster COMMAND='kubectl get nodes'
.PHONY: cluster
cluster: wheel  ## the cluster of test-kubernetes, with a shell in it (needs root)
	@scripts/install_deps.sh --buildah
	@scripts/install_deps.sh --kubectl
	@scripts/install_kubernetes.sh
	@PYTHONPATH="$(PYTHONPATH):$(CURDIR)/tests:$(CURDIR)/tests/with_kubernetes" $(VENV)/python \
	  tests/with_kubernetes/by_hand.py $(COMMAND)

.PHONY: test-kubernetes-page
test-kubernetes-page: deps  ## the cluster that docs/kubernetes.md starts, from a bare Debian root on: builds all of it again, in half an hour (needs root)
	@scripts/install_deps.sh --browser
	@PYTHONPATH="$(PYTHONPATH):$(CURDIR)/tests:$(CURDIR)/tests/with_browser" $(VENV)/python \
	  tests/with_kubernetes/from_bare_root.py

# What the automatic build runs of it.
.PHONY: test-kubernetes-short
test-kubernetes-short:
	@$(MAKE) --no-print-directory test-kubernetes SHORT=1

.PHONY: test-manifests
test-manifests: deps  ## deploy/kubernetes and deploy/compose: rendered, against schemas and policies, and run as processes; needs what `make build` builds
	@scripts/install_deps.sh --kubectl
	@scripts/install_deps.sh --compose
	@$(VENV)/python -m pytest -q -rs tests/manifests

.PHONY: test-monitoring
test-monitoring: deps product  ## a Prometheus with our rules: every query of the dashboard and the docs, every alert by its cause; a minute
	@scripts/install_deps.sh --prometheus
	@PYTHONPATH="$(PYTHONPATH):$(CURDIR)/tests/with_prometheus" $(VENV)/python -m pytest -q -rs \
	  --junitxml=build/test/test-monitoring.xml tests/with_prometheus

.PHONY: test-dashboard
test-dashboard: deps product  ## the page of farandole dashboard in Debian's Chromium, beside a real job; a minute; pictures in build/test
	@scripts/install_deps.sh --browser
	@PYTHONPATH="$(PYTHONPATH):$(CURDIR)/tests/with_browser" $(VENV)/python -m pytest -q -rs -s \
	  --junitxml=build/test/test-dashboard.xml tests/with_browser

.PHONY: test-systemd
test-systemd: deps product  ## deploy/systemd under Debian's systemd, booted in namespaces (needs root); seconds
	@scripts/install_deps.sh --systemd
	@PYTHONPATH="$(PYTHONPATH):$(CURDIR)/tests/with_systemd" $(VENV)/python -m pytest -q -rs \
	  --junitxml=build/test/test-systemd.xml tests/with_systemd

.PHONY: test-apptainer
test-apptainer: wheel  ## deploy/apptainer: built and run by Debian's Apptainer, as a user without rights (needs root to become one)
	@scripts/install_deps.sh --buildah
	@scripts/install_deps.sh --apptainer
	@PYTHONPATH="$(PYTHONPATH):$(CURDIR)/tests/with_kubernetes" $(VENV)/python -m pytest -q -rs \
	  --junitxml=build/test/test-apptainer.xml tests/with_apptainer

.PHONY: test-asan
test-asan: deps  ## the C++ tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@$(VENV)/python scripts/run_sanitizer.py asan

.PHONY: test-tsan
test-tsan: deps  ## the C++ tests that do without gRPC under ThreadSanitizer
	@$(VENV)/python scripts/run_sanitizer.py tsan

# More at a time than cores, as scripts/run_tests.py has it: jobs wait as often as they compute.
AT_A_TIME := -n$(shell expr $$(nproc) \* 3 / 2) --dist=worksteal

FRONT_END := tests/api $(patsubst %,tests/multiprocess/test_%.py,collectives gradients optimizers sets)
TORCH_FLOOR := 2.1.0
TORCH ?= $(TORCH_FLOOR)

.PHONY: test-torch
test-torch: deps product  ## the tests of the front end with another torch: make test-torch TORCH=2.14.1
	@scripts/install_deps.sh --torch $(TORCH)
	@PATH="$(CURDIR)/.deps/torch-$(TORCH)/bin:$$PATH" python -m pytest -q -rs $(AT_A_TIME) $(FRONT_END)

.PHONY: test-torch-floor
test-torch-floor:  ## the same with the oldest torch that is supported
	@$(MAKE) --no-print-directory test-torch TORCH=$(TORCH_FLOOR)

.PHONY: test-nccl
test-nccl: deps kernels product  ## NVIDIA's own NCCL and ptxas, without a GPU: our declarations, loading, version, ids, what a failure says; our kernels
	@scripts/install_deps.sh --nvidia
	bazel test //tests/nccl:abi_test //tests/nccl:library_test //tests/nccl:ptxas_test --test_output=all
	@$(VENV)/python -m pytest -q tests/nccl/front_end.py

# What runs in the guests beside Debian's tools.
IN_GUESTS := $(addprefix //tests/conformance:,channel_test ending_test pairing_test tcp_test) \
	//tests/metamorphic:metamorphic_test //tests/rdma:channel_traffic

# The newest for Python 3.11.
JAX ?= 0.10.2
JAX_FLOOR := 0.4.35
JAX_TESTS ?= tests/with_jax

.PHONY: test-jax
test-jax: deps product  ## the front end for JAX; with another release: make test-jax JAX=0.6.2
	@scripts/install_deps.sh --jax $(JAX)
	@PATH="$(CURDIR)/.deps/jax-$(JAX)/bin:$$PATH" python -m pytest -q -rs $(AT_A_TIME) \
	  --junitxml=build/test/test-jax.xml $(JAX_TESTS)

.PHONY: test-jax-floor
test-jax-floor:  ## the collectives with the oldest release of JAX that is supported
	@$(MAKE) --no-print-directory test-jax JAX=$(JAX_FLOOR) JAX_TESTS="tests/with_jax -k 'numpy and (2 or 3)'"

TENSORFLOW ?= 2.21.0
TENSORFLOW_FLOOR := 2.13.1
# The last release that has it.
TENSORFLOW_OF_KERAS_2 := 2.15.1
TENSORFLOW_TESTS ?= tests/with_tensorflow

.PHONY: test-tensorflow
test-tensorflow: deps product  ## the front end for TensorFlow; with another release: make test-tensorflow TENSORFLOW=2.16.2
	@scripts/install_deps.sh --tensorflow $(TENSORFLOW)
	@PATH="$(CURDIR)/.deps/tensorflow-$(TENSORFLOW)/bin:$$PATH" python -m pytest -q -rs $(AT_A_TIME) \
	  --junitxml=build/test/test-tensorflow.xml $(TENSORFLOW_TESTS)

.PHONY: test-tensorflow-floor
test-tensorflow-floor:  ## what is shared by all, with the oldest release of TensorFlow that is supported
	@$(MAKE) --no-print-directory test-tensorflow TENSORFLOW=$(TENSORFLOW_FLOOR) \
	  TENSORFLOW_TESTS="tests/with_tensorflow -k '(numpy or arithmetic or xla) and 2 or normalisation and 3'"

KERAS ?= 3.15.1

.PHONY: test-keras
test-keras: deps product  ## the front ends for Keras 3 on TensorFlow, JAX and PyTorch; another release: make test-keras KERAS=3.12.4
	@scripts/install_deps.sh --keras $(KERAS)
	@PATH="$(CURDIR)/.deps/keras-$(KERAS)/bin:$$PATH" python -m pytest -q -rs $(AT_A_TIME) \
	  --junitxml=build/test/test-keras.xml tests/with_keras

.PHONY: test-keras-2
test-keras-2: deps product  ## the same for Keras 2, in the last release of TensorFlow that has it
	@scripts/install_deps.sh --tensorflow $(TENSORFLOW_OF_KERAS_2)
	@PATH="$(CURDIR)/.deps/tensorflow-$(TENSORFLOW_OF_KERAS_2)/bin:$$PATH" python -m pytest -q -rs $(AT_A_TIME) \
	  --junitxml=build/test/test-keras-2.xml tests/with_keras

MXNET ?= 1.9.1

.PHONY: test-mxnet
test-mxnet: deps product  ## the front end for MXNet; with another release: make test-mxnet MXNET=1.7.0.post2
	@scripts/install_deps.sh --mxnet $(MXNET)
	@PATH="$(CURDIR)/.deps/mxnet-$(MXNET)/bin:$$PATH" python -m pytest -q -rs $(AT_A_TIME) \
	  --junitxml=build/test/test-mxnet.xml tests/with_mxnet

# Two at a time: pip computes on one core.
.PHONY: environments
environments: deps  ## the environments of all frameworks, which their tests would make one after the other
	@printf '%s\n' 'torch $(TORCH_FLOOR)' 'keras $(KERAS)' 'tensorflow $(TENSORFLOW)' 'tensorflow $(TENSORFLOW_FLOOR)' \
	  'tensorflow $(TENSORFLOW_OF_KERAS_2)' 'jax $(JAX)' 'jax $(JAX_FLOOR)' 'mxnet $(MXNET)' | \
	  xargs -P2 -I% sh -c 'scripts/install_deps.sh --%'

.PHONY: test-rdma
test-rdma: deps  ## RDMA between emulated machines, with Soft-RoCE; skipped where there is no emulator
	@scripts/install_deps.sh --rdma || echo "test-rdma: no emulator, see above: its tests are skipped"
	bazel build $(IN_GUESTS)
	@$(VENV)/python -m pytest -q -rs --junitxml=build/test/test-rdma.xml tests/rdma

# Neither Bazel nor a network is needed there. On the CPU: make test-gpu DEVICE=cpu
DEVICE ?= cuda

# The wheel unpacked, without installing anything.
IN_WHEEL := FARANDOLE_LIBRARY_DIR=$(CURDIR)/build/gpu/farandole/lib FARANDOLE_BIN_DIR=$(CURDIR)/build/gpu/farandole/bin

.PHONY: unpack-wheel
unpack-wheel:
	@rm -rf build/gpu && mkdir -p build/gpu && cd build/gpu && python3 -m zipfile -e ../wheel/dist/farandole-*.whl .
	@chmod +x build/gpu/farandole/bin/*

# Some of them: make test-gpu TESTS="-k optimizer". Several at a time, with pytest-xdist: TESTS="-n 4 -k 'not streams'";
# tests/gpu/test_streams.py measures times and wants the GPU for itself.
TESTS ?=

.PHONY: test-gpu
test-gpu: unpack-wheel  ## on a machine with a GPU, with the python3 and torch that are there and the wheel that was built (make wheel)
	@FARANDOLE_TEST_DEVICE=$(DEVICE) $(IN_WHEEL) python3 -m pytest -v -rs --durations=10 tests/gpu $(TESTS)

# So that they do not rot where there is no GPU. The ways between GPUs are one there.
.PHONY: test-gpu-on-cpu
test-gpu-on-cpu: wheel  ## what test-gpu runs, with the tensors on the CPU, and a part of bench-gpu
	@PATH="$(VENV):$$PATH" $(MAKE) --no-print-directory test-gpu DEVICE=cpu \
	  TESTS="$(AT_A_TIME) -k 'not staged and not of_four_ranks' --junitxml=build/test/test-gpu-on-cpu.xml"
	@PATH="$(VENV):$$PATH" $(MAKE) --no-print-directory bench-gpu DEVICE=cpu PARTS=submitting

# Some parts of it: make bench-gpu PARTS="calls packing"
PARTS ?=

.PHONY: bench-gpu
bench-gpu: unpack-wheel  ## figures of GPUs beside torch.distributed and DDP, in the same way; build/bench/gpu.json
	@FARANDOLE_TEST_DEVICE=$(DEVICE) $(IN_WHEEL) python3 tests/bench/bench_gpu.py $(PARTS)

.PHONY: test-large
test-large: deps  ## counts beyond 2^31: some minutes, 12 GB of memory
	bazel test //worker/select:large_count_test --test_output=all

.PHONY: lint
lint: deps  ## clang-format, ruff, mypy, clang's analysis of locks, and the docs; changes nothing
	@scripts/install_deps.sh --lint
	@scripts/install_deps.sh --docs
	@$(VENV)/python scripts/lint.py

.PHONY: format
format: deps  ## rewrites the sources as lint wants them
	@$(VENV)/python scripts/lint.py --fix

.PHONY: docs
docs: deps  ## the docs as a site: build/site/index.html, to be opened as a file
	@scripts/install_deps.sh --docs
	@$(VENV)/python -m mkdocs build --strict

.PHONY: demo
demo: deps product  ## trains a small network on scanned digits with two processes
	$(RUN) farandole run -np 2 python examples/torch_digits.py

# One of them: make bench BENCH=allreduce
BENCH ?= allreduce fusion negotiation step startup footprint status

.PHONY: bench
bench: build wheel  ## figures beside their peers; tables, and build/bench/NAME.json
	@for name in $(BENCH); do $(VENV)/python tests/bench/bench_$$name.py || exit 1; done

# A tenth of the ranks: make bench-control QUICK=1
.PHONY: bench-control
bench-control: build  ## the control plane with up to 10,000 ranks, beside bare gRPC; build/bench/control.json
	@FARANDOLE_BENCH_QUICK=$(QUICK) $(VENV)/python tests/bench/bench_control.py

# A tenth of the agents: make bench-agents QUICK=1
.PHONY: bench-agents
bench-agents: build  ## 1,000 agents at one controller with TLS, and a job beside a tenant that misbehaves; build/bench/agents.json
	@FARANDOLE_BENCH_QUICK=$(QUICK) $(VENV)/python tests/bench/bench_agents.py

# Few sizes and rounds: make bench-data QUICK=1
.PHONY: bench-data
bench-data: build  ## the data plane beside gloo, Open MPI and bounds; build/bench/data.json and docs/pictures
	@scripts/install_deps.sh --bench && bazel build //tests/bench:mpi_ranks || echo "bench-data: goes on without Open MPI"
	@FARANDOLE_BENCH_QUICK=$(QUICK) $(VENV)/python tests/bench/bench_data.py

# Few rounds: make bench-horovod QUICK=1
.PHONY: bench-horovod
bench-horovod: deps product  ## everything beside Horovod 0.28.1, built for this torch; build/bench/horovod.json and a picture
	@scripts/install_horovod.sh
	@FARANDOLE_BENCH_QUICK=$(QUICK) $(VENV)/python tests/bench/bench_horovod.py

# Few rounds: make bench-rdma QUICK=1
.PHONY: bench-rdma
bench-rdma: deps  ## channels between two emulated machines beside bare verbs on the same link; build/bench/rdma.json
	@scripts/install_deps.sh --rdma
	bazel build //tests/rdma:channel_speed //tests/rdma:channel_traffic
	@PYTHONPATH="$(PYTHONPATH):$(CURDIR)/tests/rdma" FARANDOLE_BENCH_QUICK=$(QUICK) $(VENV)/python tests/bench/bench_rdma.py

# Every figure of the docs: make bench-elastic TRIALS=200
.PHONY: bench-elastic
bench-elastic: deps product  ## kill -9 to the first step of the other workers, and of a replacement; build/bench/elastic.json
	@TRIALS=$(TRIALS) $(VENV)/python tests/bench/bench_elastic.py

# TensorFlow: the last release that Horovod 0.28.1 can be built for.
.PHONY: bench-frameworks
bench-frameworks: deps product  ## the front ends beside their frameworks and Horovod 0.28.1 for TensorFlow; build/bench/frameworks.json
	@scripts/install_deps.sh --tensorflow $(TENSORFLOW_OF_KERAS_2)
	@scripts/install_horovod.sh --tensorflow $(TENSORFLOW_OF_KERAS_2)
	@scripts/install_deps.sh --keras $(KERAS)
	@scripts/install_deps.sh --jax $(JAX)
	@scripts/install_deps.sh --mxnet $(MXNET)
	@FARANDOLE_BENCH_QUICK=$(QUICK) $(VENV)/python tests/bench/bench_frameworks.py $(CURDIR)/.deps/tensorflow-$(TENSORFLOW_OF_KERAS_2) \
	  $(CURDIR)/.deps/horovod-tensorflow-$(TENSORFLOW_OF_KERAS_2) $(CURDIR)/.deps/keras-$(KERAS) $(CURDIR)/.deps/jax-$(JAX) \
	  $(CURDIR)/.deps/mxnet-$(MXNET)

.PHONY: wheel
wheel: deps kernels product  ## build/wheel/dist/farandole-*.whl, and farandole_horovod-*.whl with Horovod's names
	@$(VENV)/python scripts/build_wheel.py

.PHONY: wheel-test
wheel-test: wheel  ## installs the wheels in a bare Debian root and runs the docs' pages there (needs root)
	@$(VENV)/python tests/wheel/in_root.py

# One seed: bazel run //tests/sim -- --seed=N --trace
SEEDS ?= 10000

.PHONY: sim
sim: deps  ## whole jobs with faults, simulated: make sim SEEDS=10000; ends at the first seed that breaks a promise
	bazel run //tests/sim -- --seeds=$(SEEDS)

# Each target so long, under AddressSanitizer: make fuzz MINUTES=10
MINUTES ?= 10

.PHONY: fuzz
fuzz: deps  ## what a hostile peer can say, fuzzed: make fuzz MINUTES=10; ends with the first input that breaks anything
	@scripts/install_deps.sh --fuzz
	@$(VENV)/python scripts/run_fuzz.py $(MINUTES)

.PHONY: clean
clean:  ## removes what was built; keeps .deps and .venv
	bazel clean
	rm -rf build
