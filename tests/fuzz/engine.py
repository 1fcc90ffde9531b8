"""Runs one target under atheris: ``python -m tests.fuzz.engine TARGET [libFuzzer's arguments]``."""

from __future__ import annotations

import importlib
import pathlib
import random
import resource
import sys
import tempfile

import atheris

from tests.folders import ROOT

# atheris instruments modules that Python finds on sys.path, which holds the source tree; an editable installation has a
# finder of its own in front of it.
sys.meta_path[:] = [each for each in sys.meta_path if "editable" not in type(each).__module__]
with atheris.instrument_imports(include=["ortconv"]):
    from tests.fuzz import oracle

    target = importlib.import_module(f"tests.fuzz.{sys.argv[1]}")

_MEMORY = 2 << 30
"""Address space that conversions may take in addition to what the libraries take."""

_FILES = [path.read_bytes() for path in sorted((ROOT / "tests" / "fuzz" / "corpus" / sys.argv[1]).iterdir())]


def _mutate(data: bytes, max_size: int, seed: int) -> bytes:
    """Changes a file as the target knows it, and now and then its bytes."""
    rng = random.Random(seed)
    changed = target.mutate(data, rng, _FILES) if rng.random() < 0.97 else None
    return changed if changed is not None and len(changed) <= max_size else atheris.Mutate(data, max_size)


def main() -> None:
    """Never returns: libFuzzer ends the process."""
    size = int(pathlib.Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + _MEMORY, size + _MEMORY))
    with tempfile.TemporaryDirectory() as folder:

        def one_input(data: bytes) -> None:
            oracle.judge(target, data, pathlib.Path(folder))

        atheris.Setup([sys.argv[0], *sys.argv[2:]], one_input, custom_mutator=_mutate)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
