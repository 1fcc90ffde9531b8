"""Checks wheels for Linux: ``python -m tests.wheels.check WHEEL...``; needs pyelftools."""

from __future__ import annotations

import io
import pathlib
import re
import sys
import zipfile

from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection
from elftools.elf.sections import SymbolTableSection

MACHINES = {"x86_64": "EM_X86_64", "aarch64": "EM_AARCH64"}
LIBRARY = "ortconv/lib/libortconv_ops.so"
LARGEST = 12 * 2**20
GLIBC = (2, 28)
SYSTEM = re.compile(r"(libc|libm|libdl|libpthread|librt|ld-linux.*)\.so\.\d")


_EXPORTED = {"CreateEpFactories", "RegisterCustomOps", "ReleaseEpFactory"}
"""What ONNX Runtime looks for in libraries of custom operators and of execution providers."""


def check(path: pathlib.Path) -> str:
    """Returns what there is to say about a wheel that is right.

    Raises:
        AssertionError: It is for another platform than it says, too large, needs what old systems lack, or its library
            exports more than ONNX Runtime looks for.
    """
    tag = re.fullmatch(r"ortconv-[\w.]+-py3-none-(?:manylinux\w+\.)*manylinux_2_(\d+)_(x86_64|aarch64)\.whl", path.name)
    assert tag is not None, f"{path.name} is no wheel for Linux of any Python 3"
    assert path.stat().st_size < LARGEST, f"{path.name} has {path.stat().st_size} bytes"
    with zipfile.ZipFile(path) as wheel:
        names = wheel.namelist()
        library = ELFFile(io.BytesIO(wheel.read(LIBRARY)))
    assert [name for name in names if name.startswith("ortconv/native")] == [], "the wheel holds sources"
    assert "ortconv/converters/__init__.py" in names
    assert any(name.endswith(".dist-info/sboms/ortconv.cdx.json") for name in names), "the wheel holds no SBOM"
    assert library["e_machine"] == MACHINES[tag[2]], f"the library is for {library['e_machine']}"
    needed, versions, exported = set(), {(0,)}, set()
    for section in library.iter_sections():
        if isinstance(section, DynamicSection):
            needed |= {each.needed for each in section.iter_tags("DT_NEEDED")}
        elif isinstance(section, GNUVerNeedSection):
            found = [
                re.fullmatch(r"GLIBC_([\d.]+)", each.name) for _, all_of in section.iter_versions() for each in all_of
            ]
            versions |= {tuple(map(int, version[1].split("."))) for version in found if version}
        elif isinstance(section, SymbolTableSection) and section.name == ".dynsym":
            exported |= {each.name for each in section.iter_symbols() if each["st_shndx"] != "SHN_UNDEF"}
    assert [name for name in needed if not SYSTEM.fullmatch(name)] == [], f"the library needs {needed}"
    assert max(versions) <= min(GLIBC, (2, int(tag[1]))), f"the library needs glibc {max(versions)}"
    assert exported - {""} == _EXPORTED, f"the library exports {exported}"
    glibc = ".".join(map(str, max(versions)))
    return f"{path.name}: {path.stat().st_size / 2**20:.1f} MiB, glibc {glibc}, exports {', '.join(sorted(_EXPORTED))}"


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        print(check(pathlib.Path(argument)))
