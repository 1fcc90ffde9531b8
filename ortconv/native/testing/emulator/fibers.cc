#include "testing/emulator/fibers.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace ortconv::cuda::emulator {
namespace {

constexpr size_t kStackBytes = 128 << 10;

Fibers* entering = nullptr;

// AddressSanitizer wants to know of stacks.
void leave(void** fake_stack, const void* to, size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(fake_stack, to, bytes);
#else
  (void)fake_stack, (void)to, (void)bytes;
#endif
}

void arrive(void* fake_stack, const void** from, size_t* bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake_stack, from, bytes);
#else
  (void)fake_stack, (void)from, (void)bytes;
#endif
}

// Unlike swapcontext(), these make no system call. The compiler wants both in functions of their own.
[[noreturn, gnu::noinline]] void jump(void** to) { __builtin_longjmp(to, 1); }

[[gnu::noinline]] void jump_and_return(void** from, void** to) {
  if (__builtin_setjmp(from) == 0) jump(to);
}

[[gnu::noinline]] void enter_and_return(void** from, const ucontext_t& to) {
  if (__builtin_setjmp(from) == 0) setcontext(&to);
}

}  // namespace

Fibers::Fibers(size_t count) : fibers_(count) {
  for (Fiber& fiber : fibers_) fiber.stack.reset(new char[kStackBytes]);
}

void Fibers::start(void (*fn)(size_t index)) {
  fn_ = fn;
  for (Fiber& fiber : fibers_) {
    if (!fiber.finished) fiber.entered = false;  // it was left in the middle
    fiber.finished = false;
    if (fiber.entered) continue;
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = kStackBytes;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, &Fibers::enter, 0);
    fiber.fake_stack = nullptr;
  }
}

// Does not return: a fiber that has finished pauses until it is started anew.
void Fibers::enter() {
  Fibers* const self = entering;
  arrive(nullptr, &self->scheduler_stack_, &self->scheduler_stack_size_);
  const size_t index = self->current_;
  for (;;) {
    self->fn_(index);
    self->fibers_[index].finished = true;
    self->pause();
  }
}

void Fibers::resume(size_t index) {
  Fiber& fiber = fibers_[index];
  current_ = index;
  entering = this;
  leave(&scheduler_fake_stack_, fiber.stack.get(), kStackBytes);
  if (fiber.entered) {
    jump_and_return(scheduler_, fiber.place);
  } else {
    fiber.entered = true;
    enter_and_return(scheduler_, fiber.context);
  }
  arrive(scheduler_fake_stack_, nullptr, nullptr);
}

void Fibers::pause() {
  Fiber& fiber = fibers_[current_];
  leave(&fiber.fake_stack, scheduler_stack_, scheduler_stack_size_);
  jump_and_return(fiber.place, scheduler_);
  arrive(fiber.fake_stack, &scheduler_stack_, &scheduler_stack_size_);
}

}  // namespace ortconv::cuda::emulator
