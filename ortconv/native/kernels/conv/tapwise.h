// Transposed convolution of small images, tap by tap: a src position is multiplied only by the taps that land in dst.
//
// Output phases of a small image spend a tenth to a third of their products on the zeros around it. Here the rows of a
// GEMM are neighbouring src positions, its columns dst channels. A tap is one GEMM for each row of the image, without
// the positions that would land outside dst. The sums of a block of dst channels,
//     [class][image][position][dst channel],
// are then transposed, a tile at a time, and written as those of the phases are. The weights are packed for it,
//     [group][block of dst channels][chunk of src channels][tap][src channel][dst channel].
//
// The operands of bf16 numbers are pairs of src channels where the CPU has dot products of them.
#pragma once

#include <cstddef>

#include "base/parallel.h"
#include "kernels/conv/plan.h"

namespace ortconv::kernels {

// Whether some runs of a problem with these constant weights may be computed tap by tap, and whether a run may. Neither
// src nor dst is empty.
bool takes_tapwise(Op op, const ConvProblem& static_part, DataType dtype, const void* wei, const ArchFlags& arch);
bool can_run_tapwise(const Plan& plan, const ConvProblem& problem);

// For plans of these, if they may multiply in pairs; null: in no case.
const BasicGemmKernel<BfloatPair>* tapwise_pairs_kernel(DataType dtype, const ArchFlags& arch);

// Src channels of a chunk.
int64_t tapwise_chunk(const Plan& plan);

// Operands of a plan's packed weights.
int64_t tapwise_packed_size(const Plan& plan);

// Packs the weights of one group.
void pack_tapwise(const Plan& plan, const void* wei, int64_t group, void* packed);

size_t tapwise_scratch_bytes(const Plan& plan, const ConvProblem& problem, int threads);

// As run(), with weights packed for it; but returns whether its operands stand for src well enough.
bool run_tapwise(const Plan& plan, const ConvProblem& problem, const void* src, const void* bias, void* dst,
                 void* scratch, const Parallel& parallel);

}  // namespace ortconv::kernels
