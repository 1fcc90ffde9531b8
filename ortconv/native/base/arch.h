// What the CPU (and the operating system) can run, as plain flags so that a test can pin any of them.
#pragma once

#include <string>

namespace ortconv {

// When convolutions may be computed by minimal filtering (see kernels/winograd).
enum class Winograd { kNever, kWhereFaster, kAlways };

struct ArchFlags {
  bool avx2_fma = false;     // and F16C, which every CPU with AVX2 has
  bool avx512 = false;       // F, BW, VL and DQ together; implies avx2_fma
  bool avx512_bf16 = false;  // implies avx512
  bool amx_bf16 = false;     // tiles of bf16; implies avx512_bf16
  bool avx512_vnni = false;  // dot products of bytes; implies avx512
  bool avx_vnni = false;     // the same in AVX2's encoding; implies avx2_fma
  // Dot products of AVX512-BF16 take longer than the same products in float: on Sapphire Rapids twice as long.
  bool slow_bf16_dots = false;
  // What is not in L2 takes long to read. Set for every Intel CPU with AVX-512: servers spread their L3 over a mesh.
  bool slow_l3 = false;

  // Whether there are dot products of bytes whose sums are exact.
  bool has_byte_dots() const { return avx512_vnni || avx_vnni || neon; }

  bool neon = false;  // Advanced SIMD of AArch64, which every such CPU has
  Winograd winograd = Winograd::kNever;

  // The flags of this machine, limited by the environment variable ORTCONV_MAX_ISA (portable, avx2, avx512 or
  // avx512_bf16; avx2 and avx512 mean without dot products of bytes, avx512 also without bf16 instructions, avx512_bf16
  // without tiles, but with dot products even if they are slow). ORTCONV_WINOGRAD is never, always (where possible) or,
  // by default, auto (where faster). Both are read once, on the first call.
  static const ArchFlags& host();
};

// A name for CPUs of one model with these flags, without spaces.
std::string cpu_id(const ArchFlags& arch);

}  // namespace ortconv
