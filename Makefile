# Needs Python 3.11+ and a C++17 compiler; everything else comes from PyPI into $(VENV).
PYTHON ?= python3
VENV ?= .venv
JOBS ?= auto
# The Python of a machine with an NVIDIA GPU, which has onnxruntime-gpu and torch.
CUDA_PYTHON ?= python3
# Tests start many processes, which read the bytecode that the first one wrote.
unexport PYTHONDONTWRITEBYTECODE
# How long each target is fuzzed, and the seed of what it tries.
SECONDS ?= 60
SEED ?= 1

BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
# Modules are compiled when they are first imported: most never are.
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
CUDA := build/cuda
NATIVE := $(shell find ortconv/native -name '*.cc' -o -name '*.h' -o -name '*.cu' -o -name '*.inc' -o -name 'CMakeLists.txt' -o -name '*.cmake')
MODULES := $(shell find ortconv converters -name '*.py')

.PHONY: demo test test-all test-lowest test-serve sweep fuzz bench docs site wheels wheel-bare wheel-arm sbom lint format \
	dist sanitize tsan arm clean help \
	cuda cuda-test cuda-bench cuda-sanitize cuda-emulated cuda-ptx

help:
	@echo "make demo      convert the samples, run them with and without the plugin, compare, and draw a picture"
	@echo "make test      run the quick tests: at most 4 cases of each test, and none that takes long"
	@echo "make test-all  run all tests but the heavy sweeps: at most 12 cases of each test"
	@echo "make test-lowest  run all tests but the heavy sweeps with the lowest version of everything that pyproject.toml asks for"
	@echo "make test-serve  run the tests of what serves models, with Ray and Triton's client, which make test skips"
	@echo "make sweep     run what test-all leaves out: heavy sweeps, and the other cases of tests"
	@echo "make bench     compare the speed with ONNX Runtime, OpenVINO and torch (where installed)"
	@echo "make docs      write the generated tables and pictures into docs"
	@echo "make site      build the documentation as a site, build/site; warnings are errors"
	@echo "make fuzz      fuzz readers, optimize and operators for SECONDS (60) each; findings lie in build/fuzz"
	@echo "make lint      check form and style"
	@echo "make dist      build wheel and sdist, type-check and test the installed wheel"
	@echo "make wheels    build wheels for x86-64 and 64-bit ARM Linux into dist/wheels, and check them"
	@echo "make wheel-bare  run the tutorial with the wheel in a bare container (needs docker, or BARE)"
	@echo "make wheel-arm   convert a model with the ARM wheel in QEMU, and load its library (needs root, debootstrap and qemu-user-static)"
	@echo "make sbom      write what the wheel needs as CycloneDX into dist/ortconv.cdx.json"
	@echo "make sanitize  run native tests and cases of the operators under AddressSanitizer and UndefinedBehaviorSanitizer"
	@echo "make tsan      run the native tests that have threads under ThreadSanitizer"
	@echo "make arm       run the native tests for 64-bit ARM in QEMU (needs g++-aarch64-linux-gnu and qemu-user-static)"
	@echo "make cuda-emulated  run the tests of the CUDA kernels on the CPU"
	@echo "make cuda-ptx       run them on what NVIDIA's compiler makes of the kernels, with checks of every access to memory"
	@echo "On a machine with an NVIDIA GPU, whose CUDA_PYTHON (python3) has onnxruntime-gpu and torch:"
	@echo "make cuda           run cuda-test and cuda-bench"
	@echo "make cuda-test      run the tests of the CUDA kernels"
	@echo "make cuda-bench     compare their speed with ONNX Runtime's and torch's; CUDA_BENCH=\"--dtype f16 --minutes 9\""
	@echo "make cuda-sanitize  run some of the tests under compute-sanitizer, which has to be on the PATH"

# The native library is built with what pyproject.toml asks for and nothing else, but not in a folder of its own each
# time: so a change rebuilds only what it touches, and the wheel takes the same object files.
$(INSTALLED): pyproject.toml $(NATIVE)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")' \
		> $(VENV)/build-requires.txt
	$(PIP_INSTALL) --requirement $(VENV)/build-requires.txt
	$(PIP_INSTALL) --no-build-isolation --editable '.[dev]'
	touch $@

demo: $(INSTALLED)
	$(BIN)/python samples/demo.py

test: $(INSTALLED)
	$(BIN)/python -m pytest -m 'not sweep and not slow' -n $(JOBS)

test-all: $(INSTALLED)
	$(BIN)/python -m pytest -m 'not sweep' -n $(JOBS)

# In an environment of its own, for a Python that all of these versions know: the oldest that pyproject.toml allows.
LOWEST := build/lowest
test-lowest: $(INSTALLED)
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check uv --requirement $(VENV)/build-requires.txt
	$(LOWEST)/bin/uv pip install --quiet --python $(LOWEST)/bin/python --resolution lowest-direct \
		--requirement pyproject.toml --extra test --extra bench
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	$(LOWEST)/bin/python -m pytest -m 'not sweep' -n $(JOBS)

# In an environment of its own, as Triton's client pins versions; what else it needs it takes from $(VENV).
SERVE := build/serve
test-serve: $(INSTALLED)
	$(PYTHON) -m venv $(SERVE)
	$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["serve"], sep="\n")' \
		> $(SERVE)/requirements.txt
	$(SERVE)/bin/python -m pip install --quiet --disable-pip-version-check --requirement $(SERVE)/requirements.txt
	$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
		> "$$($(SERVE)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/dependencies.pth"
	PYTHONPATH=$(CURDIR) ORTCONV_LIBRARY="$$($(BIN)/python -c 'import ortconv; print(ortconv.library_path())')" \
		$(SERVE)/bin/python -m pytest tests/serving tests/samples/test_serving.py tests/samples/test_batch_inference.py

sweep: $(INSTALLED)
	$(BIN)/python -m pytest -m sweep -n $(JOBS)

# Needs atheris, which `make` installs where it has a wheel: Linux on x86-64, Python 3.11 to 3.14. Elsewhere it says so.
fuzz: $(INSTALLED)
	$(BIN)/python -m tests.fuzz --seconds $(SECONDS) --seed $(SEED)
	$(BIN)/python -m tests.fuzz.operators --seconds $(SECONDS) --first $(SEED)

bench: $(INSTALLED)
	mkdir -p build
	$(BIN)/python -m benchmarks --json build/benchmarks.json --plot build/benchmarks.png

docs: $(INSTALLED)
	$(BIN)/python -m tests.operations
	$(BIN)/python -m tests.docs.padding_pictures

site: $(INSTALLED)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

lint: $(INSTALLED)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy -p ortconv
	find ortconv/native -name '*.cc' -o -name '*.h' -o -name '*.cu' | xargs $(BIN)/clang-format --dry-run --Werror

format: $(INSTALLED)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	find ortconv/native -name '*.cc' -o -name '*.h' -o -name '*.cu' | xargs $(BIN)/clang-format -i

# Wheels for Linux with glibc 2.28 or newer, on whatever Linux this is. They have an environment of their own, since Zig,
# which compiles for old C libraries and for other machines, takes 400 MB. auditwheel can only be told a platform of this
# machine, so it finds the oldest that fits, and the tag is set afterwards.
WHEELS := dist/wheels
MACHINES := x86_64 aarch64
ZIG := build/wheels/venv
wheels: pyproject.toml
	$(PYTHON) -m venv $(ZIG)
	$(ZIG)/bin/python -c 'import tomllib; project = tomllib.load(open("pyproject.toml", "rb")); \
		print(*project["build-system"]["requires"], *project["project"]["optional-dependencies"]["wheels"], sep="\n")' \
		> build/wheels/requires.txt
	$(ZIG)/bin/python -m pip install --quiet --disable-pip-version-check --requirement build/wheels/requires.txt
	rm -rf $(WHEELS) build/wheels/raw
	for machine in $(MACHINES); do \
		PATH="$(abspath $(ZIG))/bin:$$PATH" ORTCONV_MACHINE=$$machine _PYTHON_HOST_PLATFORM=linux-$$machine \
			ORTCONV_ZIG="$$($(ZIG)/bin/python -c 'import pathlib, ziglang; print(pathlib.Path(ziglang.__file__).parent / "zig")')" \
			python -m build --wheel --no-isolation --outdir build/wheels/raw --config-setting build-dir=build/wheels/$$machine \
			--config-setting cmake.args=--toolchain=$(abspath ortconv/native/manylinux.cmake) . && \
		PATH="$(abspath $(ZIG))/bin:$$PATH" auditwheel repair --only-plat --wheel-dir $(WHEELS) \
			build/wheels/raw/*_$$machine.whl && \
		$(ZIG)/bin/python -m wheel tags --remove --platform-tag manylinux_2_28_$$machine $(WHEELS)/*_$$machine.whl || exit; done
	$(ZIG)/bin/python -m tests.wheels.check $(WHEELS)/*.whl

# The commands of the tutorial, in a bare image; BARE starts a shell in one where pip finds the wheels.
BARE := docker run --rm --interactive --volume $(abspath $(WHEELS)):/wheels --env PIP_FIND_LINKS=/wheels debian:12 bash -s
wheel-bare:
	$(PYTHON) -m tests.docs.pages docs/tutorial/index.md $(BARE)

# Python for 64-bit ARM from Debian's packages, which are unpacked and not installed, in QEMU; as root, for debootstrap.
# A model is converted there, and the library loaded. ONNX Runtime's own wheel crashes when it is imported in QEMU 7.2, so
# what the kernels compute is tested by `make arm`.
ARM := build/wheels/arm
wheel-arm:
	rm -rf $(ARM)
	mkdir -p $(ARM)/sysroot
	debootstrap --arch=arm64 --foreign --variant=minbase --include=python3 bookworm $(ARM)/sysroot > $(ARM)/debootstrap.log
	for package in $(ARM)/sysroot/var/cache/apt/archives/*.deb; do \
		dpkg-deb --extract $$package $(ARM)/sysroot || exit; done
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --target $(ARM)/site --only-binary :all: \
		--python-version 3.11 --platform manylinux_2_28_aarch64 --platform manylinux_2_27_aarch64 \
		--platform manylinux_2_17_aarch64 --platform manylinux2014_aarch64 --find-links $(WHEELS) ortconv
	cp -r samples/sources $(ARM)
	cd $(ARM) && export PYTHONPATH=site && run="qemu-aarch64-static -L sysroot sysroot/usr/bin/python3.11 -P" && \
		$$run -m ortconv convert sources/unet_decoder.xml -o net.onnx && \
		$$run -c 'import ctypes, ortconv; print(ctypes.CDLL(ortconv.library_path()).RegisterCustomOps)'

# What is in an environment with the wheel and all that it needs, as CycloneDX.
SBOM := build/wheels/sbom
sbom:
	rm -rf $(SBOM)
	$(PYTHON) -m venv $(SBOM)/wheel
	$(PYTHON) -m venv $(SBOM)/tool
	$(SBOM)/wheel/bin/python -m pip install --quiet --disable-pip-version-check --find-links $(WHEELS) 'ortconv[cpu]'
	$(SBOM)/wheel/bin/python -m pip uninstall --quiet --disable-pip-version-check --yes pip setuptools
	$(SBOM)/tool/bin/python -m pip install --quiet --disable-pip-version-check cyclonedx-bom
	$(SBOM)/tool/bin/cyclonedx-py environment --output-reproducible --pyproject pyproject.toml \
		--output-file dist/ortconv.cdx.json $(SBOM)/wheel

# The sdist must hold what the tree holds. The wheel is checked and tested from another folder, where the source tree
# does not shadow it, in an environment that takes all but ortconv from $(VENV). The numbers that its library computes
# are tested by `make test`: it is the same one. So is what a terminal shows.
SDIST := ortconv converters tests samples benchmarks docs mkdocs.yml Makefile pyproject.toml README.md LICENSE
WHEEL := build/wheel-test
dist: $(INSTALLED)
	rm -rf dist build/sdist-test $(WHEEL)
	$(BIN)/python -m build --sdist --no-isolation --outdir dist .
	$(BIN)/python -m build --wheel --no-isolation --outdir dist .
	mkdir -p build/sdist-test $(WHEEL)
	tar --extract --file dist/*.tar.gz --directory build/sdist-test --strip-components 1
	for each in $(SDIST); do diff --recursive --exclude __pycache__ $$each build/sdist-test/$$each || exit; done
	cp -r $(addprefix build/sdist-test/,tests samples pyproject.toml README.md) $(WHEEL)
	$(PYTHON) -m venv --without-pip $(WHEEL)/venv
	$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
		> "$$($(WHEEL)/venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/dependencies.pth"
	$(BIN)/python -m pip --python $(WHEEL)/venv install --quiet --disable-pip-version-check --no-deps --ignore-installed \
		dist/*.whl
	cd $(WHEEL) && venv/bin/python -m mypy --command 'import ortconv'
	cd $(WHEEL) && venv/bin/python -P -m pytest -n $(JOBS) -m 'not sweep and not slow' -k 'not TestTerminal' \
		tests/runtime/test_library.py tests/runtime/test_session.py tests/runtime/test_python_ops.py \
		tests/runtime/test_python_ops_failures.py tests/cli/test_cli.py tests/cli/test_convert.py \
		tests/cli/test_execution.py tests/test_imports.py tests/samples

sanitize: $(INSTALLED)
	$(BIN)/cmake -S ortconv/native -B build/sanitize -G Ninja -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN)/ninja) \
		-DCMAKE_BUILD_TYPE=RelWithDebInfo -DORTCONV_BUILD_TESTS=ON -DORTCONV_SANITIZE=address,undefined
	$(BIN)/cmake --build build/sanitize
	cd build/sanitize && $(abspath $(BIN)/ctest) --output-on-failure --parallel 2
	for isa in $$(cat build/sanitize/isas); do ORTCONV_MAX_ISA=$$isa ORTCONV_LIBRARY=$(abspath build/sanitize/libortconv_ops.so) \
		LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libstdc++.so)" ASAN_OPTIONS=detect_leaks=0 \
		$(BIN)/python -m tests.fuzz.operators --first 0 --count 12 || exit; done

tsan: $(INSTALLED)
	$(BIN)/cmake -S ortconv/native -B build/tsan -G Ninja -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN)/ninja) \
		-DCMAKE_BUILD_TYPE=RelWithDebInfo -DORTCONV_BUILD_TESTS=ON -DORTCONV_SANITIZE=thread
	$(BIN)/cmake --build build/tsan --target thread_tests
	cd build/tsan && $(abspath $(BIN)/ctest) --output-on-failure --parallel 2 --label-regex threads

arm: $(INSTALLED)
	$(BIN)/cmake -S ortconv/native -B build/arm -G Ninja -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN)/ninja) \
		-DORTCONV_BUILD_TESTS=ON --toolchain $(abspath ortconv/native/aarch64.cmake)
	$(BIN)/cmake --build build/arm
	cd build/arm && $(abspath $(BIN)/ctest) --output-on-failure

# A library whose CUDA kernels run in ONNX Runtime's CPU provider, on a fake driver that emulates the GPU.
cuda-emulated: $(INSTALLED)
	$(BIN)/cmake -S ortconv/native -B build/native -G Ninja -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN)/ninja) -DORTCONV_BUILD_TESTS=ON
	$(BIN)/cmake --build build/native --target ortconv_emulated
	ORTCONV_TEST_CUDA=emulated ORTCONV_LIBRARY=$(abspath build/native/libortconv_ops_emulated.so) \
		ORTCONV_CUDA_CACHE=$(abspath build/native/cuda_cache) $(BIN)/python -m pytest -n $(JOBS) tests/cuda

# The same with PTX: NVRTC compiles the kernels, and an interpreter runs the result in place of the emulator.
cuda-ptx: $(INSTALLED)
	$(BIN)/cmake -S ortconv/native -B build/native -G Ninja -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN)/ninja) -DORTCONV_BUILD_TESTS=ON
	$(BIN)/cmake --build build/native --target cuda_ptx_test cuda_plan_ptx_test cuda_compressed_ptx_test \
		cuda_integer_ptx_test cuda_quantized_ptx_test cuda_fourier_ptx_test cuda_kernel_ptx_test \
		ortconv_emulated_ptx
	$(BIN)/python -c 'from tests.cuda_sources.nvrtc import library; print(library()._name)' > build/native/nvrtc_path
	export ORTCONV_PTX_NVRTC="$$(cat build/native/nvrtc_path)" ORTCONV_CUDA_CACHE=$(abspath build/native/cuda_cache) && \
		build/native/tests/cuda_ptx_test && build/native/tests/cuda_plan_ptx_test && \
		build/native/tests/cuda_compressed_ptx_test && build/native/tests/cuda_integer_ptx_test && \
		build/native/tests/cuda_quantized_ptx_test && build/native/tests/cuda_fourier_ptx_test && \
		build/native/tests/cuda_kernel_ptx_test && ORTCONV_TEST_CUDA=emulated \
		ORTCONV_LIBRARY=$(abspath build/native/libortconv_ops_emulated_ptx.so) $(BIN)/python -m pytest -n $(JOBS) tests/cuda

cuda: cuda-test cuda-bench

# Nothing is installed into the machine's own Python: an environment on top of it gets ortconv and, from PyPI, what the
# machine lacks. Tests and benchmarks run in another folder, where the source tree does not shadow the installation.
$(CUDA)/.installed: pyproject.toml $(NATIVE) $(MODULES)
	rm -rf $(CUDA)/venv
	$(CUDA_PYTHON) -m venv --without-pip $(CUDA)/venv
	$(CUDA_PYTHON) -c 'import sys; print(*(path for path in sys.path if path.endswith("-packages")), sep="\n")' \
		> "$$($(CUDA)/venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/machine.pth"
	$(CUDA_PYTHON) -m pip --python $(CUDA)/venv/bin/python install --quiet --disable-pip-version-check \
		scikit-build-core cmake ninja hypothesis pytest pytest-xdist
	PATH=$(abspath $(CUDA)/venv/bin):$$PATH $(CUDA_PYTHON) -m pip --python $(CUDA)/venv/bin/python install --quiet \
		--disable-pip-version-check --no-build-isolation .
	touch $@

.PHONY: $(CUDA)/run
$(CUDA)/run: $(CUDA)/.installed
	rm -rf $@
	mkdir -p $@
	cp -r tests benchmarks samples pyproject.toml README.md $@

# First whether the numbers are right; then the sessions, which want the GPU to themselves. Warnings of the machine's
# packages are no errors.
cuda-test: $(CUDA)/run
	cd $< && ORTCONV_TEST_CUDA=required ../venv/bin/python -P -m pytest -W default -n $(JOBS) tests/cuda/test_conformance.py \
		tests/cuda/test_products.py tests/cuda/test_integer_convs.py tests/cuda/test_quantized_convs.py \
		tests/cuda/test_fourier.py
	cd $< && ORTCONV_TEST_CUDA=required ../venv/bin/python -P -m pytest -W default tests/cuda/test_sessions.py

cuda-bench: $(CUDA)/run
	cd $< && ../venv/bin/python -m benchmarks.cuda --json $(abspath benchmarks/results/cuda.json) $(CUDA_BENCH)
	cd $< && ../venv/bin/python -m benchmarks.cuda.products --json $(abspath benchmarks/results/cuda_products.json)
	cd $< && ../venv/bin/python -m benchmarks.cuda.integer_convs --json $(abspath benchmarks/results/cuda_integer_convs.json)
	cd $< && ../venv/bin/python -m benchmarks.cuda.fourier --json $(abspath benchmarks/results/cuda_fourier.json)

cuda-sanitize: $(CUDA)/run
	cd $< && for tool in memcheck racecheck synccheck; do ORTCONV_TEST_CUDA=required compute-sanitizer --error-exitcode 9 \
		--tool $$tool ../venv/bin/python -P -m pytest -W default tests/cuda/test_conformance.py \
		-k 'definition or infinities' || exit; done

clean:
	rm -rf $(VENV) build dist demo_output
