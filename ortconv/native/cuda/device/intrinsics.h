// Intrinsics, as inline PTX. testing/emulator/device.h implements the same functions for the CPU.
#pragma once

#ifdef __CUDACC__

// A kernel whose only argument is the struct `params`. Registers are limited so that `blocks` blocks of `threads`
// threads fit on a multiprocessor.
#define KERNEL(name, Params, threads, blocks) \
  extern "C" __global__ void __launch_bounds__(threads, blocks) name(const __grid_constant__ Params params)

namespace ortconv {
namespace cuda {

// Each rounds its result, and is not fused with another.
__device__ inline float multiply_rounded(float a, float b) { return __fmul_rn(a, b); }
__device__ inline float add_rounded(float a, float b) { return __fadd_rn(a, b); }
__device__ inline float divide_rounded(float a, float b) { return __fdiv_rn(a, b); }

// The nearest integer, of ties the even one.
__device__ inline int round_half_even(float value) { return __float2int_rn(value); }

__device__ inline float float_of_half(unsigned short bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}

__device__ inline unsigned short half_of_float(float value) {
  unsigned short bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}

#if __CUDA_ARCH__ >= 800
__device__ inline unsigned short bfloat_of_float(float value) {
  unsigned short bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}
#endif

// The dynamic shared memory of the block.
__device__ inline unsigned char* shared_memory() {
  extern __shared__ __align__(128) unsigned char memory[];
  return memory;
}

// A byte address in shared memory.
typedef unsigned SharedAddress;

__device__ inline SharedAddress shared_address(unsigned char* at) {
  return static_cast<SharedAddress>(__cvta_generic_to_shared(at));
}

__device__ inline void atomic_or(unsigned* at, unsigned bits) { atomicOr(at, bits); }
__device__ inline void atomic_add(unsigned* at, unsigned value) { atomicAdd(at, value); }

__device__ inline unsigned multiply_high(unsigned a, unsigned b) { return __umulhi(a, b); }

// Four floats at once; `from` is aligned to 16 bytes.
__device__ inline void load_four(float (&to)[4], const float* from) {
  const float4 four = *reinterpret_cast<const float4*>(from);
  to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
}

// All words at once; `from` is aligned to their total size.
__device__ inline void load_words(unsigned (&to)[1], const void* from) { to[0] = *static_cast<const unsigned*>(from); }
__device__ inline void load_words(unsigned (&to)[2], const void* from) {
  const uint2 two = *static_cast<const uint2*>(from);
  to[0] = two.x, to[1] = two.y;
}
__device__ inline void load_words(unsigned (&to)[4], const void* from) {
  const uint4 four = *static_cast<const uint4*>(from);
  to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
}

// The value of lane `own ^ mask`; all lanes of the warp call it.
__device__ inline float shuffle_xor(float value, int mask) {
  float other;
  asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, 0xffffffff;" : "=f"(other) : "f"(value), "r"(mask));
  return other;
}

// 16 bytes at once; `to` is aligned.
__device__ inline void store_chunk(unsigned char* to, unsigned a, unsigned b, unsigned c, unsigned d) {
  *reinterpret_cast<uint4*>(to) = make_uint4(a, b, c, d);
}

__device__ inline void store_shared(SharedAddress to, const unsigned (&words)[4]) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(words[0]), "r"(words[1]), "r"(words[2]),
               "r"(words[3])
               : "memory");
}

// Copies kBytes (4 or 16) from global to shared memory, or writes zeros where not `valid`; complete only after the wait
// for the group that it is committed in, and for other threads after a barrier.
template <int kBytes>
__device__ inline void copy_async(SharedAddress to, const void* from, bool valid) {
#if __CUDA_ARCH__ >= 800
  const unsigned bytes = valid ? kBytes : 0;
  if (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
  }
#else
  if (kBytes == 16) {
    uint4 value = make_uint4(0, 0, 0, 0);
    if (valid) value = *static_cast<const uint4*>(from);
    const unsigned words[4] = {value.x, value.y, value.z, value.w};
    store_shared(to, words);
  } else {
    unsigned value = 0;
    if (valid) value = *static_cast<const unsigned*>(from);
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(to), "r"(value) : "memory");
  }
#endif
}

__device__ inline void commit_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits until at most kPending of the latest groups are pending.
template <int kPending>
__device__ inline void wait_for_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
#endif
}

// Four 8x8 matrices of 16-bit elements, register i from the matrix whose rows of 16 bytes lanes 8i..8i+7 point at.
__device__ inline void load_matrix(unsigned (&r)[4], SharedAddress row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(row)
               : "memory");
}

// sums[16][8] += a[16][k] * b[k][8] with k = 16, or 8 for TF32.
__device__ inline void mma_f16(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(b[0]));
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[2]), "r"(a[3]), "r"(b[1]));
#endif
}

// sums[16][8] += a[16][32] * b[32][8] of integers of 8 bits, those of `a` with a sign; the sums wrap.
template <bool kSigned>
__device__ inline void mma_integers(unsigned (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
#if __CUDA_ARCH__ >= 800
#define ORTCONV_MMA(type)                                   \
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8." type      \
      ".s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, " \
      "{%0, %1, %2, %3};"                                   \
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])      \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
  if (kSigned) {
    ORTCONV_MMA("s8");
  } else {
    ORTCONV_MMA("u8");
  }
#else
#define ORTCONV_MMA(type, row, a, b)                                                         \
  asm("mma.sync.aligned.m8n8k16.row.col.s32.s8." type ".s32 {%0, %1}, {%2}, {%3}, {%0, %1};" \
      : "+r"(c[2 * (row)]), "+r"(c[2 * (row) + 1])                                           \
      : "r"(a), "r"(b))
#pragma unroll
  for (int i = 0; i < 4; ++i) {  // rows 0-7 or 8-15, then the halves of the depth
    if (kSigned) {
      ORTCONV_MMA("s8", i % 2, a[i], b[i / 2]);
    } else {
      ORTCONV_MMA("u8", i % 2, a[i], b[i / 2]);
    }
  }
#endif
#undef ORTCONV_MMA
}

// Of both halves of a word.
__device__ inline unsigned subtract_halves(unsigned a, unsigned b) {
  unsigned result;
  asm("sub.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  return result;
}
__device__ inline unsigned multiply_halves(unsigned a, unsigned b) {
  unsigned result;
  asm("mul.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  return result;
}

#if __CUDA_ARCH__ >= 800
// The same of bfloat16, as multiplication by 1 and addition of -0.
__device__ inline unsigned subtract_bfloats(unsigned a, unsigned b) {
  unsigned result;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(0x3f803f80u), "r"(b ^ 0x80008000u));
  return result;
}
__device__ inline unsigned multiply_bfloats(unsigned a, unsigned b) {
  unsigned result;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(0x80008000u));
  return result;
}

__device__ inline void mma_bf16(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ inline void mma_tf32(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// To nearest, ties away from zero.
__device__ inline unsigned tf32_of_float(float value) {
  unsigned bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
  return bits;
}
#endif

}  // namespace cuda
}  // namespace ortconv

#endif  // __CUDACC__
