// What an emulated program and the emulator know of each other. Plain C types: the two are compiled apart.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ortconv::cuda::emulator {

struct Dim {
  unsigned x, y, z;
};

// The state of the thread that runs now, and what it asks of the others. One thread runs at a time.
struct Runtime {
  Dim thread, block, block_size, grid_size;
  unsigned char* shared;  // of the block

  // Waits for all threads of the block.
  void (*barrier)();
  // Waits for all lanes of the warp to call with the same name, then `apply` is called once with what each lane handed
  // in, by lane.
  void (*collective)(const char* name, void* argument, void (*apply)(void* const* lanes));
  // A copy that may happen at any time until the wait for its group ends. `bytes` beyond `valid` are zeros.
  void (*copy_async)(void* to, const void* from, size_t bytes, size_t valid);
  void (*commit)();
  void (*wait)(int pending);  // until at most so many of the latest groups are under way
  void (*trap)(const char* why);
};

}  // namespace ortconv::cuda::emulator
