// The kernels of a family that this CPU has.
#pragma once

#include <cstdio>

#include "base/arch.h"

namespace ortconv::test {

// Calls fn(kernel) for what `get` returns for portable code, AVX2 and all that this CPU has, and prints their names and
// what this CPU lacks.
template <class Get, class Fn>
void for_each_kernel(Get get, Fn fn) {
  const ArchFlags& host = ArchFlags::host();
  ArchFlags avx2;
  avx2.avx2_fma = host.avx2_fma;
  const void* seen = nullptr;
  for (const ArchFlags& arch : {ArchFlags{}, avx2, host}) {
    const auto& kernel = get(arch);
    if (&kernel == seen) continue;
    seen = &kernel;
    fn(kernel);
    std::printf("%s\n", kernel.name);
  }
  if (!host.avx2_fma) std::printf("SKIP avx2: this CPU lacks AVX2 or FMA\n");
  if (!host.avx512) std::printf("SKIP avx512: this CPU lacks AVX-512\n");
}

}  // namespace ortconv::test
