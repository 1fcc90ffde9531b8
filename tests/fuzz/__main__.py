"""Fuzzes the readers and ``optimize``: ``python -m tests.fuzz [TARGET ...] --seconds N``; see SECURITY.md.

With ORTCONV_FUZZ_STRICT=1, exceptions that no lowering foresees are findings, too.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import functools
import importlib.util
import os
import pathlib
import subprocess
import sys

from tests.fuzz.oracle import TARGETS

_CORPUS = pathlib.Path(__file__).parent / "corpus"
_WORK = pathlib.Path("build/fuzz")
_SECONDS_PER_INPUT = 20
_RESIDENT_MB = 3000
_LARGEST = 1 << 16


def main() -> int:
    """Runs the targets, as many at once as there are processors; the exit code is that of the first with a finding."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", choices=[[], *TARGETS], help="all by default")
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if importlib.util.find_spec("atheris") is None:
        print("atheris, which has wheels for Linux on x86-64, is not installed; nothing is fuzzed.")
        return 0
    names = options.targets or TARGETS
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        runs = list(pool.map(functools.partial(_fuzz, seconds=options.seconds, seed=options.seed), names))
    for name, done in zip(names, runs, strict=True):
        print(f"=== {name}\n{done.stdout}")
        if done.returncode:
            print(f"{name}: a finding; its input is {_WORK}/{name}-*, which belongs into {_CORPUS / name} once mended.")
    return next((done.returncode for done in runs if done.returncode), 0)


def _fuzz(name: str, seconds: int, seed: int) -> subprocess.CompletedProcess[str]:
    grown = _WORK / "corpus" / name
    grown.mkdir(parents=True, exist_ok=True)
    return subprocess.run(
        [
            *(sys.executable, "-m", "tests.fuzz.engine", name, str(grown), str(_CORPUS / name)),
            *(f"-max_total_time={seconds}", f"-timeout={_SECONDS_PER_INPUT}"),
            *(f"-rss_limit_mb={_RESIDENT_MB}", f"-max_len={_LARGEST}", f"-seed={seed}"),
            *(f"-artifact_prefix={_WORK}/{name}-", "-print_final_stats=1", "-verbosity=1"),
        ],
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )


if __name__ == "__main__":
    sys.exit(main())
