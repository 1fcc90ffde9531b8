# Compiles for Linux with glibc 2.28 or newer, on any Linux and for another machine too, with the compiler and the C
# libraries of Zig:
#   ORTCONV_MACHINE=aarch64 ORTCONV_ZIG=.../ziglang/zig cmake -S ortconv/native -B build/zig --toolchain "$PWD/ortconv/native/manylinux.cmake"
# ORTCONV_MACHINE is x86_64 or aarch64, ORTCONV_ZIG the program of the package `ziglang` of PyPI. Tests for aarch64 run
# in Debian's qemu-user-static with the C library of its libc6-arm64-cross.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR $ENV{ORTCONV_MACHINE})
set(CMAKE_CXX_COMPILER $ENV{ORTCONV_ZIG} c++)
set(CMAKE_CXX_COMPILER_TARGET ${CMAKE_SYSTEM_PROCESSOR}-linux-gnu.2.28)
set(CMAKE_CXX_FLAGS_INIT -Wno-pass-failed)  # of loops that are asked to unroll and are not
set(CMAKE_SHARED_LINKER_FLAGS_INIT -s)
if(CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64" AND NOT CMAKE_HOST_SYSTEM_PROCESSOR STREQUAL "aarch64")
  set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static -L /usr/aarch64-linux-gnu)
endif()
