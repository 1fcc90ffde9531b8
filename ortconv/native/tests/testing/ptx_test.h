// Runs PTX written by hand.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "testing/ptx/machine.h"
#include "testing/test.h"

namespace ortconv::cuda::ptx {

// A kernel with this body, which finds: in %rd1 the address of `numbers`, in %rd2 that of the thread's own one, in %r1
// the thread, in %r2 its address in shared memory, 4 bytes each. Registers from 10 on are free.
struct Kernel {
  std::string body;
  uint32_t blocks = 1, threads = 64;
  unsigned order = 0;
  std::vector<uint32_t> numbers = std::vector<uint32_t>(64);  // in global memory
  Content content = Content::kDefined;

  std::string text() const {
    return ".version 7.0\n.target sm_80\n.address_size 64\n"
           ".extern .shared .align 128 .b8 memory[];\n"
           ".visible .entry kernel(\n.param .align 8 .b8 kernel_param_0[8]\n)\n.maxntid 64, 1, 1\n{\n"
           ".local .align 16 .b8 depot[32];\n"
           ".reg .pred %p<20>;\n.reg .b16 %rs<20>;\n.reg .f32 %f<20>;\n.reg .b32 %r<40>;\n.reg .b64 %rd<20>;\n"
           "ld.param.u64 %rd1, [kernel_param_0];\n"
           "mov.u32 %r1, %tid.x;\n"
           "mov.u32 %r2, memory;\n"
           "mad.lo.s32 %r2, %r1, 4, %r2;\n"
           "mul.wide.u32 %rd2, %r1, 4;\n"
           "add.s64 %rd2, %rd1, %rd2;\n" +
           body + "\nret;\n}\n";
  }

  // Throws Error.
  void run() {
    GlobalMemory memory;
    memory.add(numbers.data(), numbers.size() * sizeof(uint32_t), content);
    Grid grid{{blocks, 1, 1}, {threads, 1, 1}, 1024, std::vector<unsigned char>(8)};
    const uint32_t* const address = numbers.data();
    std::memcpy(grid.params.data(), &address, sizeof address);
    launch(parse(text()), "kernel", grid, memory, order);
  }
};

// What is wrong with a kernel; empty where nothing is.
inline std::string error_of(const std::string& body, uint32_t blocks = 1, Content content = Content::kDefined) {
  Kernel kernel;
  kernel.body = body;
  kernel.blocks = blocks;
  kernel.content = content;
  return test::refusal([&] { kernel.run(); });
}

inline void expect_error(const std::string& body, const std::string& what, uint32_t blocks = 1,
                         Content content = Content::kDefined) {
  const std::string error = error_of(body, blocks, content);
  EXPECT(!what.empty() ? error.find(what) != std::string::npos : error.empty(), body, ": ", error, " not ", what);
}

}  // namespace ortconv::cuda::ptx
