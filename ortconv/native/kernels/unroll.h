// Unrolls the loop that follows whatever the optimisation level: the register tile of a microkernel must not be indexed
// at run time. MSVC unrolls such loops by itself.
#pragma once

#if defined(__GNUC__)
#define ORTCONV_ALWAYS_INLINE __attribute__((always_inline))
#define ORTCONV_NEVER_INLINE __attribute__((noinline))
#else
#define ORTCONV_ALWAYS_INLINE
#define ORTCONV_NEVER_INLINE
#endif

// Keeps a vector in a register. GCC would load it from memory again for every use, which it takes for free. Keeps a
// pointer, to which constants are added: GCC would compute each sum on its own.
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__)
#define ORTCONV_KEEP(vector) __asm__("" : "+v"(vector))
#define ORTCONV_KEEP_POINTER(pointer) __asm__("" : "+r"(pointer))
#else
#define ORTCONV_KEEP(vector)
#define ORTCONV_KEEP_POINTER(pointer)
#endif

// ORTCONV_UNROLL_TWICE: two passes of a loop of unknown length become one, where what a pass does besides its work
// counts.
#if defined(__clang__)
#define ORTCONV_UNROLL _Pragma("clang loop unroll(full)")
#define ORTCONV_UNROLL_TWICE _Pragma("clang loop unroll_count(2)")
#elif defined(__GNUC__)
#define ORTCONV_UNROLL _Pragma("GCC unroll 16")
#define ORTCONV_UNROLL_TWICE _Pragma("GCC unroll 2")
#else
#define ORTCONV_UNROLL
#define ORTCONV_UNROLL_TWICE
#endif
