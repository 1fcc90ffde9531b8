// The stages of a plan whose GEMM multiplies numbers in parts (see kernels/bf16_split): as those of stages.h, in
// another layout.
//
// The copy of src is [block of kPartChannels channels][part][plane][image][grid axes], and its elements are cells.
#pragma once

#include "kernels/conv/stages.h"

namespace ortconv::kernels {

// Whether to multiply in parts: the CPU can, it is faster for a plan whose groups are known, and exact enough for these
// weights. Sets plan.num_parts.
bool parts_pay(Plan& plan, const ArchFlags& arch, const void* wei);

// How many times as long as products of floats those in parts take; for a plan whose num_parts is set.
double parts_cost(const Plan& plan, const ArchFlags& arch);

// Numbers of the packed weights of a plan with parts; where those of one block of dst channels and one GEMM group
// begin, laid out [panel][block of src channels][tap][part][tile].
int64_t parts_packed_size(const Plan& plan);
int64_t parts_packed_offset(const Plan& plan, int64_t group_index, int64_t block, const GemmGroup& gemm_group);

// As pack_weights().
template <class T>
void pack_parts(const Plan& plan, const T* wei, int64_t group_index, int64_t block, uint16_t* packed);

// As gather(). Returns the bits of the largest magnitude, as a float.
template <class T>
uint32_t gather_parts(const Plan& plan, const Geometry& geometry, const ConvProblem& problem, const Block& block,
                      const T* src, const int64_t* sources, uint16_t* grid);

// Sums of the blocks [first, end) of dst channels for all groups of a unit over one tile of positions, which begins at
// `cells`: [dst channel][class of the unit][geometry.columns].
void multiply_parts(const Plan& plan, const Geometry& geometry, const int64_t* tap_offsets, const Unit& unit,
                    int64_t group_index, int64_t first, int64_t end, const uint16_t* cells, int64_t columns,
                    float* tile);

}  // namespace ortconv::kernels
