#include "base/math.h"

#include "testing/test.h"

namespace ortconv {
namespace {

TEST(division_rounds_down_or_up) {
  for (int64_t a = -9; a <= 9; ++a) {
    for (int64_t b = 1; b <= 4; ++b) {
      const int64_t down = floor_div(a, b), up = ceil_div(a, b);
      EXPECT(down * b <= a && a < (down + 1) * b, a, " / ", b, " is ", down);
      EXPECT((up - 1) * b < a && a <= up * b, a, " / ", b, " is ", up);
      EXPECT(align_up(a, b) == up * b, a, " of ", b);
    }
  }
}

}  // namespace
}  // namespace ortconv
