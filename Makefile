# Needs Python 3.11+ and a C++17 compiler; everything else comes from PyPI into $(VENV).
PYTHON ?= python3
VENV ?= .venv
JOBS ?= auto

BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
NATIVE := $(shell find ortconv/native -name '*.cc' -o -name '*.h' -o -name '*.cu' -o -name '*.inc' -o -name 'CMakeLists.txt' -o -name '*.cmake')

.PHONY: demo test sweep bench readme lint format dist sanitize arm clean help

help:
	@echo "make demo      convert the samples, run them with and without the plugin, compare, and draw a picture"
	@echo "make test      run the tests"
	@echo "make sweep     run the heavy sweeps that the tests leave out"
	@echo "make bench     compare the speed with ONNX Runtime, OpenVINO and torch (where installed)"
	@echo "make readme    write the tables of operations into the README"
	@echo "make lint      check form and style"
	@echo "make dist      build wheel and sdist, type-check and test the installed wheel"
	@echo "make sanitize  run the native tests under AddressSanitizer and UndefinedBehaviorSanitizer"
	@echo "make arm       run the native tests for 64-bit ARM in QEMU (needs g++-aarch64-linux-gnu and qemu-user-static)"

$(INSTALLED): pyproject.toml $(NATIVE)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

demo: $(INSTALLED)
	$(BIN)/python samples/demo.py

test: $(INSTALLED)
	$(BIN)/python -m pytest -m 'not sweep' -n $(JOBS)

sweep: $(INSTALLED)
	$(BIN)/python -m pytest -m sweep -n $(JOBS)

bench: $(INSTALLED)
	mkdir -p build
	$(BIN)/python -m benchmarks --json build/benchmarks.json --plot build/benchmarks.png

readme: $(INSTALLED)
	$(BIN)/python -m tests.readme

lint: $(INSTALLED)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	find ortconv/native -name '*.cc' -o -name '*.h' -o -name '*.cu' | xargs $(BIN)/clang-format --dry-run --Werror

format: $(INSTALLED)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	find ortconv/native -name '*.cc' -o -name '*.h' -o -name '*.cu' | xargs $(BIN)/clang-format -i

# The wheel is checked and tested from another folder, where the source tree does not shadow it.
dist: $(INSTALLED)
	rm -rf dist build/wheel-test
	$(BIN)/python -m build --outdir dist .
	mkdir -p build/wheel-test
	$(PYTHON) -m venv build/wheel-test/venv
	build/wheel-test/venv/bin/python -m pip install --quiet --disable-pip-version-check "$$(ls dist/*.whl)[dev]"
	cp -r tests samples pyproject.toml README.md build/wheel-test/
	cd build/wheel-test && venv/bin/mypy -p ortconv
	cd build/wheel-test && venv/bin/python -P -m pytest -n $(JOBS) -m 'not sweep' tests/plugin tests/test_cli.py tests/test_imports.py tests/samples

sanitize: $(INSTALLED)
	$(BIN)/cmake -S ortconv/native -B build/sanitize -G Ninja -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN)/ninja) \
		-DCMAKE_BUILD_TYPE=RelWithDebInfo -DORTCONV_BUILD_TESTS=ON -DORTCONV_SANITIZE=address,undefined
	$(BIN)/cmake --build build/sanitize
	cd build/sanitize && $(abspath $(BIN)/ctest) --output-on-failure

arm: $(INSTALLED)
	$(BIN)/cmake -S ortconv/native -B build/arm -G Ninja -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN)/ninja) \
		-DORTCONV_BUILD_TESTS=ON --toolchain $(abspath ortconv/native/aarch64.cmake)
	$(BIN)/cmake --build build/arm
	cd build/arm && $(abspath $(BIN)/ctest) --output-on-failure

clean:
	rm -rf $(VENV) build dist demo_output
