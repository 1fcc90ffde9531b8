#include "base/arch.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>

#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#if defined(__x86_64__) || defined(_M_X64)
#define ORTCONV_X86_64 1
#if defined(_MSC_VER)
#include <immintrin.h>
#include <intrin.h>
#else
#include <cpuid.h>
#endif
#endif

namespace ortconv {
namespace {

#if defined(ORTCONV_X86_64)

struct Registers {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

// All zero when the CPU does not have the leaf.
Registers cpuid(uint32_t leaf, uint32_t subleaf) {
  Registers r;
#if defined(_MSC_VER)
  int out[4];
  __cpuid(out, 0);
  if (static_cast<uint32_t>(out[0]) < leaf) return r;
  __cpuidex(out, static_cast<int>(leaf), static_cast<int>(subleaf));
  r.eax = static_cast<uint32_t>(out[0]);
  r.ebx = static_cast<uint32_t>(out[1]);
  r.ecx = static_cast<uint32_t>(out[2]);
  r.edx = static_cast<uint32_t>(out[3]);
#else
  if (!__get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx)) return Registers();
#endif
  return r;
}

// The register state the operating system saves and restores. Only valid when CPUID reports OSXSAVE.
uint64_t xgetbv0() {
#if defined(_MSC_VER)
  return _xgetbv(0);
#else
  uint32_t lo, hi;
  // Spelled as bytes so that no assembler or -m flag is needed.
  __asm__ volatile(".byte 0x0f, 0x01, 0xd0" : "=a"(lo), "=d"(hi) : "c"(0));
  return (static_cast<uint64_t>(hi) << 32) | lo;
#endif
}

bool bit(uint32_t word, int index) { return ((word >> index) & 1) != 0; }

// Whether the operating system lets this process use the tile registers, which it has to ask for.
bool may_use_tiles() {
#if defined(__linux__) && defined(SYS_arch_prctl)
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

ArchFlags detect() {
  ArchFlags flags;
  const Registers leaf1 = cpuid(1, 0);
  const bool osxsave = bit(leaf1.ecx, 27), fma = bit(leaf1.ecx, 12), avx = bit(leaf1.ecx, 28);
  const bool f16c = bit(leaf1.ecx, 29);
  if (!osxsave || !fma || !avx || !f16c) return flags;

  constexpr uint64_t kYmm = 0x6, kZmm = 0xe6;  // XCR0: SSE and AVX state; plus opmask and the two ZMM parts
  const uint64_t saved = xgetbv0();
  if ((saved & kYmm) != kYmm) return flags;

  const Registers leaf7 = cpuid(7, 0);
  flags.avx2_fma = bit(leaf7.ebx, 5);
  const bool f = bit(leaf7.ebx, 16), dq = bit(leaf7.ebx, 17), bw = bit(leaf7.ebx, 30), vl = bit(leaf7.ebx, 31);
  flags.avx512 = flags.avx2_fma && f && dq && bw && vl && (saved & kZmm) == kZmm;
  const bool has_subleaf1 = leaf7.eax >= 1;
  flags.avx512_bf16 = flags.avx512 && has_subleaf1 && bit(cpuid(7, 1).eax, 5);
  flags.avx512_vnni = flags.avx512 && bit(leaf7.ecx, 11);
  flags.avx_vnni = flags.avx2_fma && has_subleaf1 && bit(cpuid(7, 1).eax, 4);
  constexpr uint64_t kTiles = 0x60000;  // XCR0: configuration and data
  const bool tiles = bit(leaf7.edx, 24), tiles_of_bf16 = bit(leaf7.edx, 22);
  flags.amx_bf16 = flags.avx512_bf16 && tiles && tiles_of_bf16 && (saved & kTiles) == kTiles && may_use_tiles();
  const Registers vendor = cpuid(0, 0);
  const bool is_intel = vendor.ebx == 0x756e6547 && vendor.edx == 0x49656e69 && vendor.ecx == 0x6c65746e;
  flags.slow_bf16_dots = is_intel;
  flags.slow_l3 = is_intel && flags.avx512;
  return flags;
}

#else

ArchFlags detect() {
  ArchFlags flags;
#if defined(__aarch64__)
  flags.neon = true;
#endif
  return flags;
}

#endif

ArchFlags limited(ArchFlags flags, const char* max_isa) {
  if (max_isa == nullptr) return flags;
  if (std::strcmp(max_isa, "portable") == 0) return ArchFlags();
  const bool is_avx2 = std::strcmp(max_isa, "avx2") == 0;
  if (is_avx2 || std::strcmp(max_isa, "avx512") == 0) {
    flags.avx512 = flags.avx512 && !is_avx2;
    flags.avx512_bf16 = flags.amx_bf16 = flags.avx512_vnni = flags.avx_vnni = false;
  }
  if (std::strcmp(max_isa, "avx512_bf16") == 0) flags.amx_bf16 = flags.slow_bf16_dots = false;
  return flags;
}

Winograd winograd_mode(const char* mode) {
  if (mode != nullptr && std::strcmp(mode, "never") == 0) return Winograd::kNever;
  if (mode != nullptr && std::strcmp(mode, "always") == 0) return Winograd::kAlways;
  return Winograd::kWhereFaster;
}

ArchFlags host_flags() {
  ArchFlags flags = limited(detect(), std::getenv("ORTCONV_MAX_ISA"));
  flags.winograd = winograd_mode(std::getenv("ORTCONV_WINOGRAD"));
  return flags;
}

}  // namespace

const ArchFlags& ArchFlags::host() {
  static const ArchFlags flags = host_flags();
  return flags;
}

std::string cpu_id(const ArchFlags& arch) {
  std::string id = arch.amx_bf16      ? "amx"
                   : arch.avx512_bf16 ? "avx512_bf16"
                   : arch.avx512      ? "avx512"
                   : arch.avx2_fma    ? "avx2"
                   : arch.neon        ? "neon"
                                      : "portable";
#if defined(ORTCONV_X86_64)
  const Registers vendor = cpuid(0, 0);
  id += "-" + std::to_string(vendor.ebx) + "-" + std::to_string(cpuid(1, 0).eax);
#endif
  return id;
}

}  // namespace ortconv
