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

}  // namespace

Fibers::Fibers(size_t count) : fibers_(count) {
  for (Fiber& fiber : fibers_) fiber.stack.reset(new char[kStackBytes]);
}

void Fibers::start(void (*fn)(size_t index)) {
  fn_ = fn;
  for (Fiber& fiber : fibers_) {
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = kStackBytes;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, &Fibers::enter, 0);
    fiber.finished = false;
    fiber.fake_stack = nullptr;
  }
}

void Fibers::enter() {
  Fibers* const self = entering;
  arrive(nullptr, &self->scheduler_stack_, &self->scheduler_stack_size_);
  Fiber& fiber = self->fibers_[self->current_];
  self->fn_(self->current_);
  fiber.finished = true;
  leave(nullptr, self->scheduler_stack_, self->scheduler_stack_size_);
  setcontext(&self->scheduler_);
}

void Fibers::resume(size_t index) {
  Fiber& fiber = fibers_[index];
  current_ = index;
  entering = this;
  leave(&scheduler_fake_stack_, fiber.stack.get(), kStackBytes);
  swapcontext(&scheduler_, &fiber.context);
  arrive(scheduler_fake_stack_, nullptr, nullptr);
}

void Fibers::pause() {
  Fiber& fiber = fibers_[current_];
  leave(&fiber.fake_stack, scheduler_stack_, scheduler_stack_size_);
  swapcontext(&fiber.context, &scheduler_);
  arrive(fiber.fake_stack, &scheduler_stack_, &scheduler_stack_size_);
}

}  // namespace ortconv::cuda::emulator
