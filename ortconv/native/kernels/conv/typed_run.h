// A run of a plan with the types of its elements, and how its work is shared among threads.
#pragma once

#include "base/parallel.h"
#include "base/ranges.h"
#include "kernels/conv/plan.h"

namespace ortconv::kernels {

// `Layout` is what the run adds to its plan: blocks, scratch layout.
template <class T, class Layout>
struct TypedRun {
  const Plan& plan;
  const ConvProblem& problem;
  const Layout layout;
  const T* src;
  const T* wei;
  const T* bias;
  T* dst;
  char* scratch;
};

// Calls fn(run) with the arguments of kernels::run() as a TypedRun.
template <class Layout, class Fn>
void with_typed_run(const Plan& plan, const ConvProblem& problem, const Layout& layout, const void* src,
                    const void* wei, const void* bias, void* dst, void* scratch, Fn fn) {
  with_float_type(plan.dtype, [&](auto zero) {
    using T = decltype(zero);
    fn(TypedRun<T, Layout>{plan, problem, layout, static_cast<const T*>(src), static_cast<const T*>(wei),
                           static_cast<const T*>(bias), static_cast<T*>(dst), static_cast<char*>(scratch)});
  });
}

// Runs the items of a depthwise convolution: every thread has a Worker, which is made of the run and of the thread's
// slice of the scratch. Its run_items(begin, end) is called with ranges of items.
template <template <class> class Worker, class T, class Layout>
void run_workers(const TypedRun<T, Layout>& run, const Parallel& parallel) {
  const Layout& layout = run.layout;
  Ranges ranges(layout.num_items, run.problem.mb * layout.num_blocks, 1, layout.num_slices);
  for_each(parallel, layout.num_slices, [&](int64_t i) {
    Worker<T> worker(run, run.scratch + i * static_cast<int64_t>(layout.slice_size));
    for (int64_t begin, end; ranges.take(&begin, &end);) worker.run_items(begin, end);
  });
}

}  // namespace ortconv::kernels
