// The loop of the kernels.
#pragma once

#include "kernels/unroll.h"
#include "kernels/write_lines/write_lines.h"

namespace ortconv::kernels {

// write(from, to) copies a line. A loop around each of its stores would take twice as long.
template <class Write>
ORTCONV_ALWAYS_INLINE inline void for_each_line(const WriteLinesArgs& args, const Write& write) {
  const auto* in = static_cast<const char*>(args.in);
  auto* out = static_cast<char*>(args.out);
  for (char* const end = out + args.bytes; out != end; out += kLineBytes, in += args.again ? 0 : kLineBytes) {
    write(in, out);
  }
}

}  // namespace ortconv::kernels
