// How a run is divided into work items: some channels and a slab of dst each.
#pragma once

#include <cstdint>

#include "kernels/gemm_col2im/multiplication.h"

namespace ortconv::kernels::gemm_col2im {

// Rows of an item and of a tile, if there are so many: fewer do not pay for reading src.
constexpr int64_t kLeastRows = 48;
// Threads that share tiles, at most, each with a slice of the scratch.
constexpr int kMostShare = 16;

struct Division {
  int64_t block_channels, num_blocks;  // of dst
  int64_t slab, num_slabs;             // of j of the first axis
  int64_t items;
  // Items are too few for the threads, or do not keep them all busy: these share the tiles of one item after the
  // other.
  bool shares_tiles = false;
};

struct Items : Multiplication, Division {
  int64_t shared_rows, shared_columns;  // that a thread multiplies at a time, where tiles are shared

  Items(const Plan& plan, const ConvProblem& p, int threads);
  int64_t num_slices(int threads) const;
  // Of the products of all tiles of an item, if threads share them.
  int64_t shared_size(const Plan& plan, const Division& division) const;

 private:
  int64_t reach() const;
  int64_t least_slab(int64_t reaches) const;
  Division in_blocks_and_slabs(const Plan& plan, int64_t channels, int64_t slab) const;
  Division in_cache(const Plan& plan) const;
  Division for_threads(const Plan& plan, const Division& whole, int threads) const;
  Division in_more_blocks(const Plan& plan, const Division& from, int64_t wanted) const;
  Division in_more_slabs(const Plan& plan, const Division& from, int64_t wanted) const;
  int64_t columns_multiplied(const Division& division) const;
  double work_of_thread(const Division& division, int threads) const;
  bool may_share_tiles(const Plan& plan, const Division& division) const;
  bool has_few_rows(const Plan& plan) const;
  void choose_shared(const Plan& plan, int threads);
};

}  // namespace ortconv::kernels::gemm_col2im
