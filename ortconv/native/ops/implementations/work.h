// What a run of a convolution has to do, in counts that take time.
#pragma once

namespace ortconv::implementations {

// Counts of a run on one thread. They need not be exact; what they leave out has to be in proportion to what they hold.
struct Work {
  double items = 0;     // parts that a run is cut into: images, groups, blocks of channels or of positions
  double steps = 0;     // passes through the loops around the inner kernels: rows, segments, entries of tables
  double calls = 0;     // of inner kernels
  double products = 0;  // multiplications; where vectors or register tiles are partly used, those of whole ones
  double copied = 0;  // numbers of operands that are written first: a copy of src with zeros around it, packed weights
  double added = 0;   // partial sums that are added in memory
  double stored = 0;  // numbers of dst that are written
  // Bytes that are read from or written to beyond the L2 cache: of weights, as they are packed, though of
  // doubles as if these were floats; and of src and dst, as if these were floats.
  double far_weights = 0, far = 0;
};

}  // namespace ortconv::implementations
