"""NVRTC, which compiles the device sources without a GPU; PyPI has it as nvidia-cuda-nvrtc."""

import ctypes
import importlib.util
import re
from dataclasses import dataclass
from pathlib import Path

from tests.folders import ROOT

SOURCES = ROOT / "ortconv" / "native" / "cuda"


def library() -> ctypes.CDLL | None:
    """Loads NVRTC from the wheel's folder, or from where the system has it; None where there is none."""
    spec = importlib.util.find_spec("nvidia")
    folders = [Path(folder) for folder in spec.submodule_search_locations or ()] if spec else []
    paths = [str(path) for folder in folders for path in sorted(folder.glob("**/libnvrtc.so.1[0-9]"))]
    for path in [*paths, "libnvrtc.so.13", "libnvrtc.so.12"]:
        try:
            return ctypes.CDLL(path)
        except OSError:
            continue
    return None


@dataclass(frozen=True)
class Function:
    """What ptxas reports of a kernel."""

    name: str
    registers: int
    spilled_bytes: int


@dataclass(frozen=True)
class Compilation:
    """The outcome of one compilation: `log` has the errors where it failed."""

    ok: bool
    log: str
    image: bytes

    def functions(self) -> list[Function]:
        """Lists the kernels that ptxas reported."""
        pattern = (
            r"Compiling entry function '(\w+)'.*?(\d+) bytes spill stores, (\d+) bytes spill loads"
            r".*?Used (\d+) registers"
        )
        return [
            Function(name, int(registers), int(stores) + int(loads))
            for name, stores, loads, registers in re.findall(pattern, self.log, re.DOTALL)
        ]


def compile_program(nvrtc: ctypes.CDLL, source: str, options: list[str], sm: int) -> Compilation:
    """Compiles a device source for a compute capability; the headers are found as the source includes them."""
    headers = sorted([*SOURCES.glob("device/*.h"), *SOURCES.glob("params/*.h")])
    names = (ctypes.c_char_p * len(headers))(*[f"cuda/{header.relative_to(SOURCES)}".encode() for header in headers])
    texts = (ctypes.c_char_p * len(headers))(*[header.read_bytes() for header in headers])
    program = ctypes.c_void_p()
    text = (SOURCES / "device" / f"{source}.cu").read_bytes()
    status = nvrtc.nvrtcCreateProgram(ctypes.byref(program), text, f"{source}.cu".encode(), len(headers), texts, names)
    assert status == 0, f"nvrtcCreateProgram: {status}"
    flags = [f"--gpu-architecture=sm_{sm}", "--std=c++17", "--ptxas-options=-v", *options]
    status = nvrtc.nvrtcCompileProgram(
        program, len(flags), (ctypes.c_char_p * len(flags))(*[flag.encode() for flag in flags])
    )
    log = _read(nvrtc, program, "ProgramLog").rstrip(b"\0").decode()
    image = _read(nvrtc, program, "CUBIN") if status == 0 else b""
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return Compilation(status == 0, log, image)


def _read(nvrtc: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    assert getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size)) == 0
    buffer = ctypes.create_string_buffer(size.value)
    assert getattr(nvrtc, f"nvrtcGet{what}")(program, buffer) == 0
    return buffer.raw
