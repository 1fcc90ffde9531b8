#include <cstring>

#if defined(__x86_64__) || defined(_M_X64)
#include <emmintrin.h>
#endif

#include "kernels/write_lines/write_lines_loops.h"

namespace ortconv::kernels {

void write_lines_generic(const WriteLinesArgs& args) {
  for_each_line(args, [](const char* in, char* out) {
#if defined(__x86_64__) || defined(_M_X64)
    ORTCONV_UNROLL
    for (int64_t i = 0; i < kLineBytes; i += static_cast<int64_t>(sizeof(__m128i))) {
      _mm_stream_si128(reinterpret_cast<__m128i*>(out + i), _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i)));
    }
#else
    std::memcpy(out, in, kLineBytes);
#endif
  });
}

}  // namespace ortconv::kernels
