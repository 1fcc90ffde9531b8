#include <iterator>

#include "ops/implementations/implementation.h"

namespace ortconv::implementations {
namespace {

constexpr Entry kEntries[] = {
    {"winograd", Way::kWinograd, false, false, make_winograd},
    {"winograd_separate", Way::kWinograd, false, false, make_winograd_separate},
    {"depth_to_space", Way::kDepthToSpace, false, true, make_depth_to_space},
    {"disjoint_windows", Way::kDisjointWindows, true, true, make_disjoint_windows},
    {"sliding_src", Way::kSlidingRows, false, true, make_sliding_src},
    {"sliding_weights", Way::kSlidingRows, true, false, make_sliding_weights},
    {"tapwise", Way::kTapwise, false, true, make_tapwise},
    {"channel_lanes", Way::kChannelLanes, false, true, make_channel_lanes},
    {"depthwise", Way::kDepthwise, false, true, make_depthwise},
    {"phases", Way::kPhases, false, true, make_phases},
    {"gemm_col2im", Way::kGemmCol2im, true, true, make_gemm_col2im},
    {"columns", Way::kColumns, true, true, make_columns},
    {"im2col", Way::kIm2col, true, true, make_im2col},
    {"col2im", Way::kCol2im, true, true, make_col2im},
};

}  // namespace

List list() { return {std::begin(kEntries), std::end(kEntries)}; }

}  // namespace ortconv::implementations
