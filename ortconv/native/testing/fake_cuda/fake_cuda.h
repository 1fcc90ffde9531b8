// A CUDA driver and an NVRTC for machines that have neither: libraries under the names of the real ones. "Compiling"
// wraps up the program's text and options; launching runs it in the emulator. Every call is logged, and can be made to
// fail.
//
// The functions below are exported by the driver's library, beside those of the driver.
#pragma once

#include <cstddef>

extern "C" {

struct FakeGpu {
  int sm;
  int multiprocessors;
  int shared_bytes;
  int driver_version;
};
// What every device is from now on; one that was used keeps what was said of it. By default 8.0, 3 multiprocessors, 163
// KiB, CUDA 13.2.
void fake_configure(const FakeGpu* gpu);

// Makes the call after `skipped` further calls of a driver function return `result`; once. A null name forgets it.
void fake_fail(const char* function, int result, int skipped);

// Whether launches wait until fake_drain() or a synchronization, as on a real GPU, rather than happen at once.
void fake_defer(bool defer);
// Carries out what waits on a stream, in order.
void fake_drain(void* stream);

// Whether a stream is being captured: calls that a capture forbids then fail unless the thread is in relaxed mode.
void fake_capture(bool capturing);

// Memory that nobody but a launch can touch; anybody else dies of SIGSEGV. From a whole page on, so that its end is
// that of a page, up to `alignment`.
void* fake_allocate(size_t bytes);
void fake_free(void* memory);
// Copies from or to such memory.
void fake_copy(void* to, const void* from, size_t bytes);

// The calls since the last one of fake_clear_log(), one per line: "function details". Nothing is logged before the
// first. Valid until the next call.
const char* fake_log();
void fake_clear_log();
}
