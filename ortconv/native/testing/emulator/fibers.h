// Threads that take turns on one stack each.
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

namespace ortconv::cuda::emulator {

class Fibers {
 public:
  explicit Fibers(size_t count);

  // Starts all of them anew, at fn(index).
  void start(void (*fn)(size_t index));
  // Runs fiber `index` until it pauses or returns.
  void resume(size_t index);
  // Called by a fiber.
  void pause();

  size_t size() const { return fibers_.size(); }
  bool finished(size_t index) const { return fibers_[index].finished; }
  size_t current() const { return current_; }

 private:
  using Place = void* [5];  // what __builtin_setjmp saves

  struct Fiber {
    ucontext_t context;  // at its begin
    Place place;
    std::unique_ptr<char[]> stack;
    bool entered = false, finished = true;
    void* fake_stack = nullptr;
  };
  static void enter();

  std::vector<Fiber> fibers_;
  Place scheduler_;
  void* scheduler_fake_stack_ = nullptr;
  const void* scheduler_stack_ = nullptr;
  size_t scheduler_stack_size_ = 0;
  size_t current_ = 0;
  void (*fn_)(size_t) = nullptr;
};

}  // namespace ortconv::cuda::emulator
