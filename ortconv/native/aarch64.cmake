# Cross-compiles for 64-bit ARM Linux and runs the tests in QEMU:
#   cmake -S ortconv/native -B build/arm -DORTCONV_BUILD_TESTS=ON --toolchain "$PWD/ortconv/native/aarch64.cmake"
# Needs, by the names of Debian's packages: g++-aarch64-linux-gnu, qemu-user-static.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static -L /usr/aarch64-linux-gnu)
