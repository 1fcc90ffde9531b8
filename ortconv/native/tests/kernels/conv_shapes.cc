#include "tests/kernels/conv_shapes.h"

#include <algorithm>
#include <initializer_list>
#include <random>

namespace ortconv::kernels {

std::string Shape::describe() const {
  std::string s = op == Op::kConv ? "conv" : "convtr";
  const auto add = [&](const char* name, const std::vector<int64_t>& v) {
    s += std::string(" ") + name;
    for (int64_t x : v) s += " " + std::to_string(x);
  };
  add("mb g ic oc", {mb, g, ic, oc});
  add("src", src), add("ker", ker), add("stride", stride), add("dil", dilation), add("pad", pad), add("end", pad_end);
  return s + (bias ? " bias" : "") + (nxc ? " nxc" : "") + (constant ? "" : " run-time weights") +
         (activated ? " activated" : "");
}

std::vector<Shape> shapes(int random_count) {
  std::vector<Shape> list;
  // The paths one by one.
  list.push_back({Op::kConvTranspose, {8, 8}, {4, 4}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, 1, 1, 64, 32});
  list.push_back({Op::kConvTranspose, {17, 40}, {2, 2}, {2, 2}, {1, 1}, {0, 0}, {0, 0}, 2, 1, 13, 29});
  list.push_back({Op::kConvTranspose, {9, 33}, {4, 4}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, 2, 1, 20, 3});
  list.push_back({Op::kConvTranspose, {5, 7}, {9, 9}, {3, 3}, {1, 1}, {4, 4}, {2, 3}, 1, 1, 6, 1});
  list.push_back({Op::kConvTranspose, {6, 5}, {16, 16}, {8, 8}, {1, 1}, {4, 4}, {4, 4}, 1, 5, 5, 5});
  list.push_back({Op::kConvTranspose, {60}, {16}, {8}, {1}, {4}, {4}, 1, 1, 70, 32});
  list.push_back({Op::kConvTranspose, {11}, {64}, {16}, {1}, {8}, {8}, 2, 1, 33, 1});
  list.push_back({Op::kConvTranspose, {4, 5, 6}, {2, 2, 2}, {2, 2, 2}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}, 2, 1, 16, 16});
  list.push_back({Op::kConvTranspose, {3, 5, 7}, {3, 3, 3}, {2, 2, 2}, {1, 1, 1}, {1, 0, 1}, {0, 1, 0}, 1, 1, 9, 17});
  // several blocks
  list.push_back({Op::kConvTranspose, {200, 90}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {0, 0}, 1, 1, 40, 3});
  list.push_back(
      {Op::kConvTranspose, {7, 300, 40}, {3, 2, 3}, {1, 2, 1}, {1, 1, 2}, {1, 0, 2}, {1, 0, 2}, 1, 1, 40, 1});
  list.push_back({Op::kConvTranspose, {20000}, {4}, {2}, {1}, {1}, {1}, 1, 1, 24, 5});
  // src read in place, but at its ends
  list.push_back({Op::kConvTranspose, {60, 70}, {2, 2}, {2, 2}, {1, 1}, {0, 0}, {0, 0}, 2, 1, 50, 1});
  list.push_back({Op::kConvTranspose, {40, 64}, {2, 3}, {2, 3}, {1, 1}, {0, 0}, {0, -2}, 1, 2, 90, 4});
  list.push_back({Op::kConvTranspose, {6, 20, 32}, {2, 1, 2}, {2, 1, 2}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}, 1, 1, 70, 1});
  list.push_back({Op::kConvTranspose, {9000}, {6}, {2}, {1}, {2}, {1}, 2, 1, 40, 3});
  list.push_back({Op::kConvTranspose, {5000}, {3}, {2}, {5}, {4}, {0}, 1, 1, 64, 2});
  // several chunks
  list.push_back({Op::kConvTranspose, {5, 5}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1, 1, 700, 30});
  // s > k, beyond extent
  list.push_back({Op::kConvTranspose, {4, 4}, {2, 2}, {5, 3}, {1, 1}, {0, 0}, {-9, -7}, 1, 1, 3, 5});
  // pad larger than kernel
  list.push_back({Op::kConvTranspose, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {2, 1}, {-6, 0}, 1, 1, 3, 2});
  list.push_back({Op::kConvTranspose, {4, 6}, {3, 3}, {2, 2}, {1, 1}, {7, 9}, {0, 0}, 1, 1, 3, 10});
  list.push_back({Op::kConvTranspose, {0, 6}, {3, 3}, {2, 2}, {1, 1}, {0, 0}, {-5, 0}, 1, 1, 3, 10});  // empty src
  list.push_back({Op::kConvTranspose, {4, 6}, {3, 3}, {2, 2}, {1, 1}, {9, 0}, {0, 0}, 1, 1, 3, 10});   // empty dst
  list.push_back({Op::kConvTranspose, {4, 6}, {3, 3}, {2, 2}, {1, 1}, {1, 0}, {0, 0}, 0, 1, 3, 10});   // empty batch
  list.push_back({Op::kConvTranspose, {9, 9}, {3, 3}, {1, 1}, {40, 40}, {40, 40}, {40, 40}, 1, 1, 3, 10});
  // src smaller than the kernel
  list.push_back({Op::kConvTranspose, {1, 1}, {4, 4}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, 17, 1, 100, 70});
  list.push_back({Op::kConvTranspose, {1, 1}, {3, 3}, {2, 2}, {1, 1}, {0, 1}, {1, 0}, 1, 2, 80, 26});
  list.push_back({Op::kConvTranspose, {2, 3}, {5, 7}, {1, 2}, {2, 1}, {3, 2}, {1, -4}, 2, 1, 33, 7});
  list.push_back({Op::kConvTranspose, {2, 2, 1}, {2, 3, 5}, {1, 3, 1}, {3, 1, 2}, {0, 0, 0}, {0, 0, 0}, 2, 3, 60, 9});
  // long rows of taps that lie apart in dst, some of them cut
  list.push_back({Op::kConvTranspose, {9}, {37}, {2}, {3}, {20}, {31}, 2, 1, 11, 3});
  list.push_back({Op::kConvTranspose, {3, 7}, {2, 14}, {2, 5}, {3, 7}, {2, 30}, {0, 45}, 1, 2, 6, 10});
  list.push_back({Op::kConvTranspose, {1}, {1500}, {1}, {1}, {700}, {20}, 3, 1, 9, 2});
  list.push_back({Op::kConvTranspose, {2, 1}, {4, 4}, {2, 1}, {1, 1}, {1, 0}, {1, 0}, 5, 2, 90, 34, true, true});
  list.push_back(
      {Op::kConvTranspose, {1, 2}, {3, 3}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, 1, 1, 64, 5, false, false, false});
  // small images: several blocks and chunks, blocks of images, panels along the batch, taps that all miss dst
  list.push_back({Op::kConvTranspose, {7, 19}, {4, 4}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, 2, 1, 300, 70});
  list.push_back({Op::kConvTranspose, {16, 16}, {3, 3}, {2, 2}, {1, 1}, {0, 1}, {0, 0}, 6, 2, 130, 36});
  list.push_back({Op::kConvTranspose, {4, 2}, {5, 5}, {2, 3}, {1, 1}, {9, 0}, {0, -7}, 11, 1, 64, 32, true, true});
  list.push_back({Op::kConvTranspose, {3, 4, 5}, {3, 3, 3}, {2, 1, 2}, {1, 1, 1}, {1, 1, 1}, {0, 1, 0}, 3, 1, 80, 40});
  // blocks of dst channels of which the first are larger than an even share, where rows come in whole tiles
  list.push_back({Op::kConvTranspose, {4, 3}, {4, 3}, {2, 1}, {1, 2}, {1, 2}, {1, 2}, 12, 1, 270, 50});
  list.push_back({Op::kConvTranspose, {9, 8}, {2, 2}, {2, 2}, {1, 1}, {0, 0}, {0, 0}, 2, 1, 270, 50});
  list.push_back({Op::kConvTranspose, {90}, {4}, {2}, {1}, {1}, {1}, 1, 1, 270, 37});
  // a channel of src per group
  list.push_back({Op::kConvTranspose, {34, 37}, {16, 16}, {8, 8}, {1, 1}, {4, 4}, {4, 4}, 1, 3, 3, 3});
  list.push_back({Op::kConvTranspose, {30, 70}, {4, 4}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, 2, 4, 4, 4});
  list.push_back({Op::kConvTranspose, {21, 35}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {0, 0}, 1, 5, 5, 10, false});
  list.push_back({Op::kConvTranspose, {90, 90}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1, 2, 2, 2});
  list.push_back({Op::kConvTranspose, {20, 20}, {5, 5}, {3, 3}, {2, 2}, {3, 1}, {-2, 0}, 2, 3, 3, 9});
  list.push_back({Op::kConvTranspose, {60, 90}, {3, 2}, {1, 1}, {1, 1}, {1, 0}, {1, 1}, 2, 10, 10, 20});  // by images
  list.push_back({Op::kConvTranspose, {9, 10, 11}, {3, 4, 5}, {2, 3, 1}, {2, 1, 3}, {2, 0, 4}, {1, -9, 3}, 1, 2, 2, 2});
  list.push_back({Op::kConvTranspose, {6, 40, 30}, {2, 2, 2}, {2, 2, 2}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}, 1, 3, 3, 3});
  list.push_back({Op::kConvTranspose, {6000}, {16}, {8}, {1}, {4}, {4}, 1, 3, 3, 3});
  list.push_back({Op::kConvTranspose, {5000}, {7}, {7}, {1}, {0}, {0}, 2, 2, 2, 2});
  list.push_back({Op::kConvTranspose, {3, 4}, {2, 2}, {5, 9}, {1, 1}, {0, 3}, {-9, -7}, 1, 3, 3, 3});
  list.push_back({Op::kConvTranspose, {3, 4}, {3, 3}, {2, 2}, {1, 1}, {7, 3}, {-5, 0}, 1, 2, 2, 2});
  // more of them than lanes, several blocks along every axis, rows in twos and one left over
  list.push_back({Op::kConvTranspose, {7, 7}, {7, 7}, {1, 1}, {1, 1}, {3, 3}, {3, 3}, 2, 35, 35, 35});
  list.push_back(
      {Op::kConvTranspose, {5, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1, 17, 17, 17, true, false, true, true});
  list.push_back({Op::kConvTranspose, {5, 300}, {3, 5}, {1, 1}, {1, 1}, {0, 3}, {1, -2}, 1, 17, 17, 17});
  list.push_back({Op::kConvTranspose, {90, 19}, {4, 3}, {3, 2}, {2, 1}, {2, 1}, {0, 0}, 1, 20, 20, 20});
  list.push_back(
      {Op::kConvTranspose, {5, 40, 9}, {3, 5, 3}, {2, 1, 1}, {1, 1, 1}, {1, 2, 1}, {0, 2, 1}, 1, 19, 19, 19});
  list.push_back({Op::kConvTranspose, {1, 2}, {9, 8}, {1, 2}, {1, 1}, {8, 0}, {-9, 0}, 3, 18, 18, 18});
  list.push_back({Op::kConv, {25, 90}, {7, 7}, {1, 1}, {1, 1}, {3, 3}, {3, 3}, 1, 24, 24, 24});
  list.push_back({Op::kConv, {40, 30}, {5, 3}, {2, 1}, {2, 3}, {4, 2}, {3, 2}, 1, 16, 16, 16});
  list.push_back({Op::kConv, {40, 50}, {3, 5}, {2, 1}, {3, 2}, {1, 4}, {1, 4}, 2, 3, 3, 6});
  list.push_back({Op::kConv, {9, 8, 70}, {3, 3, 3}, {1, 2, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, 1, 4, 4, 4});
  // channels last, whole vectors of them
  list.push_back({Op::kConvTranspose, {9, 21}, {4, 4}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, 2, 2, 64, 60, true, true});
  list.push_back({Op::kConv, {9, 37}, {3, 3}, {1, 2}, {1, 1}, {1, 1}, {1, 1}, 1, 1, 40, 33, true, true});
  list.push_back({Op::kConv, {14, 15}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 2, 1, 19, 30});
  list.push_back({Op::kConv, {33, 31}, {7, 7}, {2, 2}, {1, 1}, {3, 3}, {3, 3}, 1, 1, 3, 16});
  list.push_back({Op::kConv, {5, 6}, {1, 1}, {3, 2}, {1, 1}, {0, 0}, {0, 0}, 3, 1, 8, 8});
  list.push_back({Op::kConv, {100}, {40}, {20}, {1}, {3}, {4}, 1, 1, 2, 7});

  std::mt19937 random(7);
  const auto pick = [&](std::initializer_list<int64_t> values) { return *(values.begin() + random() % values.size()); };
  for (int i = 0; i < random_count; ++i) {
    Shape s;
    s.op = random() % 4 == 0 ? Op::kConv : Op::kConvTranspose;
    const int ndims = static_cast<int>(pick({1, 1, 2, 2, 2, 2, 3, 3, 4}));
    s.g = pick({1, 1, 1, 2, 3, 5});
    s.mb = pick({1, 1, 2, 3, 9});
    s.ic = s.g * pick({1, 1, 2, 3, 5, 8, 17, 70});
    s.oc = s.g * pick({1, 1, 2, 3, 5, 7, 8, 13, 17, 33});
    if (random() % 6 == 0) s.ic = s.g, s.oc = s.g * pick({1, 1, 2, 4});
    s.bias = random() % 2;
    s.nxc = random() % 4 == 0;
    s.constant = random() % 3 != 0;
    s.activated = random() % 3 == 0;
    for (int a = 0; a < ndims; ++a) {
      s.src.push_back(pick({1, 2, 3, 5, 7, 8, 11, 13, 17}));
      if (ndims <= 2 && random() % 8 == 0) s.src.back() = 37;
      s.ker.push_back(pick({1, 2, 3, 3, 4, 5}));
      if (ndims == 1 && random() % 4 == 0) s.ker.back() = pick({16, 21, 40});
      s.stride.push_back(pick({1, 1, 2, 2, 3, 4}));
      s.dilation.push_back(pick({1, 1, 1, 2, 3, 4}));
      s.pad.push_back(pick({0, 0, 1, 2, 3, 6}));
      s.pad_end.push_back(s.op == Op::kConv ? pick({0, 1, 2, 5}) : pick({0, 0, 1, 2, -1, -3, -7}));
      if (s.op == Op::kConv) {
        const int64_t extent = (s.ker.back() - 1) * s.dilation.back() + 1;
        s.src.back() = std::max({s.src.back(), extent - s.pad.back() - s.pad_end.back(), int64_t{1}});
      }
    }
    double work = static_cast<double>(s.mb * s.ic * s.oc / s.g);
    for (int a = 0; a < ndims; ++a) work *= static_cast<double>(s.src[a] * s.ker[a]);
    if (work > 4e6) {
      --i;
      continue;
    }
    list.push_back(s);
  }
  return list;
}
}  // namespace ortconv::kernels
