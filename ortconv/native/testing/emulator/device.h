// CUDA C++ on the CPU: included before the text of a program, which then compiles as C++17.
//
// Warp-wide instructions follow the fragment layouts that the PTX ISA documents for them.
#pragma once

#include <cstring>

#include "base/float16.h"
#include "testing/emulator/runtime.h"

namespace ortconv::cuda::emulator {

inline const Runtime* runtime = nullptr;

}  // namespace ortconv::cuda::emulator

extern "C" void ortconv_attach(const ortconv::cuda::emulator::Runtime* runtime) {
  ortconv::cuda::emulator::runtime = runtime;
}

#define __device__
#define __noinline__
#define __forceinline__ inline
#define threadIdx (::ortconv::cuda::emulator::runtime->thread)
#define blockIdx (::ortconv::cuda::emulator::runtime->block)
#define blockDim (::ortconv::cuda::emulator::runtime->block_size)
#define gridDim (::ortconv::cuda::emulator::runtime->grid_size)
#define __syncthreads() ::ortconv::cuda::emulator::runtime->barrier()

#define KERNEL(name, Params, threads, blocks)                                                    \
  static void name##_body(const Params& params);                                                 \
  extern "C" void name(const void* params) { name##_body(*static_cast<const Params*>(params)); } \
  static void name##_body(const Params& params)

namespace ortconv::cuda {

// Not <cmath>, which takes longer to compile than some of the programs.
inline float fmaf(float a, float b, float c) { return __builtin_fmaf(a, b, c); }

// Through memory, so that the compiler fuses nothing.
inline float multiply_rounded(float a, float b) {
  const volatile float product = a * b;
  return product;
}
inline float add_rounded(float a, float b) { return a + b; }
inline float divide_rounded(float a, float b) { return a / b; }
inline int round_half_even(float value) { return static_cast<int>(__builtin_nearbyintf(value)); }

inline float __uint_as_float(unsigned bits) { return float_of(bits); }
inline unsigned __float_as_uint(float value) { return bits_of(value); }

inline float float_of_half(unsigned short bits) { return ::ortconv::to_float(Float16{bits}); }
inline unsigned short half_of_float(float value) { return to_float16(value).bits; }

inline unsigned char* shared_memory() { return emulator::runtime->shared; }

using SharedAddress = unsigned char*;
inline SharedAddress shared_address(unsigned char* at) { return at; }

inline void store_shared(SharedAddress to, const unsigned (&words)[4]) {
  if (reinterpret_cast<uintptr_t>(to) % 16 != 0) emulator::runtime->trap("a store of 16 bytes is misaligned");
  std::memcpy(to, words, sizeof words);
}

inline void atomic_or(unsigned* at, unsigned bits) { *at |= bits; }
inline void atomic_add(unsigned* at, unsigned value) { *at += value; }

inline unsigned multiply_high(unsigned a, unsigned b) {
  return static_cast<unsigned>(static_cast<unsigned long long>(a) * b >> 32);
}

inline void load_four(float (&to)[4], const float* from) {
  if (reinterpret_cast<uintptr_t>(from) % 16 != 0) emulator::runtime->trap("a load of 16 bytes is misaligned");
  std::memcpy(to, from, sizeof to);
}

template <int kWords>
inline void load_words(unsigned (&to)[kWords], const void* from) {
  if (reinterpret_cast<uintptr_t>(from) % sizeof to != 0) emulator::runtime->trap("a load of words is misaligned");
  std::memcpy(to, from, sizeof to);
}

inline void store_chunk(unsigned char* to, unsigned a, unsigned b, unsigned c, unsigned d) {
  if (reinterpret_cast<uintptr_t>(to) % 16 != 0) emulator::runtime->trap("a store of 16 bytes is misaligned");
  const unsigned words[] = {a, b, c, d};
  std::memcpy(to, words, sizeof words);
}

template <int kBytes>
inline void copy_async(SharedAddress to, const void* from, bool valid) {
  const auto misaligned = [](const void* at) { return reinterpret_cast<uintptr_t>(at) % kBytes != 0; };
  if (misaligned(to) || (valid && misaligned(from))) emulator::runtime->trap("an asynchronous copy is misaligned");
  emulator::runtime->copy_async(to, from, kBytes, valid ? kBytes : 0);
}
inline void commit_copies() { emulator::runtime->commit(); }
template <int kPending>
inline void wait_for_copies() {
  emulator::runtime->wait(kPending);
}

namespace emulator {

struct Shuffle {
  float value, result;
  int mask;
};

inline void shuffle(void* const* lanes) {
  for (int lane = 0; lane < 32; ++lane) {
    Shuffle& own = *static_cast<Shuffle*>(lanes[lane]);
    own.result = static_cast<Shuffle*>(lanes[lane ^ own.mask])->value;
  }
}

struct LoadMatrix {
  const unsigned char* row;
  unsigned* registers;
};

// Four 8x8 matrices of 16-bit elements; lanes 8i..8i+7 point at the rows of matrix i.
inline void load_matrices(void* const* lanes) {
  unsigned short all[4][8][8];
  for (int lane = 0; lane < 32; ++lane) {
    std::memcpy(all[lane / 8][lane % 8], static_cast<LoadMatrix*>(lanes[lane])->row, 16);
  }
  for (int lane = 0; lane < 32; ++lane) {
    for (int matrix = 0; matrix < 4; ++matrix) {
      const int row = lane / 4, column = lane % 4 * 2;
      const unsigned low = all[matrix][row][column], high = all[matrix][row][column + 1];
      static_cast<LoadMatrix*>(lanes[lane])->registers[matrix] = low | high << 16;
    }
  }
}

struct Mma {
  float* sums;
  const unsigned* a;
  const unsigned* b;
};

enum class Kind { kFloat16, kBfloat16, kTf32 };

inline float element(Kind kind, const unsigned* registers, int index) {
  if (kind == Kind::kTf32) return float_of(registers[index] & 0xffffe000u);  // the unit does not see the low bits
  const auto bits = static_cast<unsigned short>(registers[index / 2] >> (index % 2 * 16));
  return kind == Kind::kFloat16 ? float_of_half(bits) : ::ortconv::to_float(Bfloat16{bits});
}

// sums[16][8] += a[16][k] * b[k][8].
template <Kind kKind>
void multiply(void* const* lanes) {
  constexpr int k_size = kKind == Kind::kTf32 ? 8 : 16, per_register = kKind == Kind::kTf32 ? 1 : 2;
  float a[16][k_size], b[k_size][8];
  for (int lane = 0; lane < 32; ++lane) {
    const Mma& m = *static_cast<Mma*>(lanes[lane]);
    const int group = lane / 4, in_group = lane % 4;
    for (int i = 0; i < 4 * per_register; ++i) {
      const int part = i / per_register;  // the register: rows 0-7 or 8-15, then the halves of k
      a[group + part % 2 * 8][in_group * per_register + i % per_register + part / 2 * (k_size / 2)] =
          element(kKind, m.a, i);
    }
    for (int i = 0; i < 2 * per_register; ++i) {
      b[in_group * per_register + i % per_register + i / per_register * (k_size / 2)][group] = element(kKind, m.b, i);
    }
  }
  for (int lane = 0; lane < 32; ++lane) {
    const Mma& m = *static_cast<Mma*>(lanes[lane]);
    for (int i = 0; i < 4; ++i) {
      const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
      double sum = m.sums[i];
      for (int k = 0; k < k_size; ++k) sum += static_cast<double>(a[row][k]) * b[k][column];
      m.sums[i] = static_cast<float>(sum);
    }
  }
}

struct IntegerMma {
  unsigned* sums;
  const unsigned* a;
  const unsigned* b;
};

inline unsigned byte_of(const unsigned* registers, int index, bool is_signed) {
  const unsigned byte = registers[index / 4] >> (index % 4 * 8) & 0xff;
  return is_signed && byte >= 0x80 ? byte - 0x100 : byte;
}

// sums[16][8] += a[16][32] * b[32][8], modulo 2^32.
template <bool kSigned>
void multiply_integers(void* const* lanes) {
  unsigned a[16][32], b[32][8];
  for (int lane = 0; lane < 32; ++lane) {
    const IntegerMma& m = *static_cast<IntegerMma*>(lanes[lane]);
    const int group = lane / 4, in_group = lane % 4;
    for (int i = 0; i < 16; ++i) {
      a[group + i / 4 % 2 * 8][in_group * 4 + i % 4 + i / 8 * 16] = byte_of(m.a, i, true);
    }
    for (int i = 0; i < 8; ++i) b[in_group * 4 + i % 4 + i / 4 * 16][group] = byte_of(m.b, i, kSigned);
  }
  for (int lane = 0; lane < 32; ++lane) {
    const IntegerMma& m = *static_cast<IntegerMma*>(lanes[lane]);
    for (int i = 0; i < 4; ++i) {
      const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
      for (int k = 0; k < 32; ++k) m.sums[i] += a[row][k] * b[k][column];
    }
  }
}

inline void load_matrix(unsigned (&registers)[4], SharedAddress row) {
  if (reinterpret_cast<uintptr_t>(row) % 16 != 0) runtime->trap("a row of a matrix is misaligned");
  LoadMatrix lane{row, registers};
  runtime->collective("load_matrix", &lane, load_matrices);
}

template <Kind kKind>
void mma(float (&sums)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  Mma lane{sums, a, b};
  runtime->collective("mma", &lane, multiply<kKind>);
}

}  // namespace emulator

inline float shuffle_xor(float value, int mask) {
  emulator::Shuffle lane{value, 0, mask};
  emulator::runtime->collective("shuffle_xor", &lane, emulator::shuffle);
  return lane.result;
}

inline void load_matrix(unsigned (&registers)[4], SharedAddress row) { emulator::load_matrix(registers, row); }

template <class Narrow, class Fn>
inline unsigned of_both(unsigned a, unsigned b, Narrow narrow, Fn fn) {
  unsigned result = 0;
  for (int shift = 0; shift < 32; shift += 16) {
    const auto low = static_cast<unsigned short>(a >> shift), high = static_cast<unsigned short>(b >> shift);
    result |= static_cast<unsigned>(narrow(fn(low, high))) << shift;
  }
  return result;
}
inline float float_of_bfloat(unsigned short bits) { return ::ortconv::to_float(Bfloat16{bits}); }
inline unsigned short bfloat_of(float value) { return to_bfloat16(value).bits; }

inline unsigned subtract_halves(unsigned a, unsigned b) {
  return of_both(a, b, half_of_float, [](auto x, auto y) { return float_of_half(x) - float_of_half(y); });
}
inline unsigned multiply_halves(unsigned a, unsigned b) {
  return of_both(a, b, half_of_float, [](auto x, auto y) { return float_of_half(x) * float_of_half(y); });
}
inline unsigned subtract_bfloats(unsigned a, unsigned b) {
  return of_both(a, b, bfloat_of, [](auto x, auto y) { return float_of_bfloat(x) - float_of_bfloat(y); });
}
inline unsigned multiply_bfloats(unsigned a, unsigned b) {
  return of_both(a, b, bfloat_of, [](auto x, auto y) { return float_of_bfloat(x) * float_of_bfloat(y); });
}

inline void mma_f16(float (&sums)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  emulator::mma<emulator::Kind::kFloat16>(sums, a, b);
}
inline void mma_bf16(float (&sums)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  emulator::mma<emulator::Kind::kBfloat16>(sums, a, b);
}
inline void mma_tf32(float (&sums)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  emulator::mma<emulator::Kind::kTf32>(sums, a, b);
}

template <bool kSigned>
inline void mma_integers(unsigned (&sums)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  emulator::IntegerMma lane{sums, a, b};
  emulator::runtime->collective("mma_integers", &lane, emulator::multiply_integers<kSigned>);
}

// To nearest, ties away from zero; infinities and NaN stay.
inline unsigned tf32_of_float(float value) {
  const unsigned bits = __float_as_uint(value);
  return (bits & 0x7f800000u) == 0x7f800000u ? bits : (bits + 0x1000u) & 0xffffe000u;
}

}  // namespace ortconv::cuda
