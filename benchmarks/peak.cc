// What this machine's cores can do at best: `peak THREADS SECONDS` prints a JSON object with the rates of independent
// fused multiply-adds, in GFLOP/s, and of copies, in GB/s (bytes read plus bytes written), by the bytes that all threads
// read and write together: small ones stay in a cache.
//
// Compile with -O3 -march=native -pthread. The vector types are gcc's and clang's; contraction makes x * y + z an FMA.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

#if defined(__AVX512BF16__) || defined(__AMX_BF16__)
#include <immintrin.h>
#endif
#if defined(__AMX_BF16__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#if defined(__AVX512F__)
constexpr int kBytes = 64;
#elif defined(__AVX__)
constexpr int kBytes = 32;
#else
constexpr int kBytes = 16;
#endif

namespace {

constexpr int kChains = 12;      // Enough for two FMA units of latency 5, and few enough for 16 registers.
constexpr int kSteps = 1 << 15;  // A fraction of a millisecond: some blocks are undisturbed on a busy machine.
constexpr size_t kLeastCopied = size_t{32} << 10, kMostCopied = size_t{128} << 20;

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

volatile double sink;  // Results go here, so that no loop is dead.

template <typename T>
double Fma(double seconds) {
  typedef T Vector __attribute__((vector_size(kBytes)));
  constexpr int kLanes = kBytes / sizeof(T);
  Vector sums[kChains];
  Vector factor, term;
  for (int lane = 0; lane < kLanes; ++lane) {
    factor[lane] = T(0.5) + T(sink);
    term[lane] = T(1) + T(sink);
  }
  for (auto& sum : sums) sum = term;
  double best = 0;
  const double end = Now() + seconds;
  while (Now() < end) {
    const double begin = Now();
    for (int step = 0; step < kSteps; ++step) {
      for (int chain = 0; chain < kChains; ++chain) sums[chain] = sums[chain] * factor + term;
    }
    best = std::max(best, 2.0 * kSteps * kChains * kLanes / (Now() - begin));
  }
  for (auto& sum : sums) sink = sink + 0 * double(sum[0]);
  return best;
}

#ifdef __AVX512BF16__
double Bf16(double seconds) {
  __m512 sums[kChains];
  const __m512bh ones = _mm512_cvtne2ps_pbh(_mm512_set1_ps(1), _mm512_set1_ps(float(sink)));
  for (auto& sum : sums) sum = _mm512_setzero_ps();
  double best = 0;
  const double end = Now() + seconds;
  while (Now() < end) {
    const double begin = Now();
    for (int step = 0; step < kSteps; ++step) {
      for (int chain = 0; chain < kChains; ++chain) sums[chain] = _mm512_dpbf16_ps(sums[chain], ones, ones);
    }
    best = std::max(best, 4.0 * kSteps * kChains * 16 / (Now() - begin));
  }
  for (auto& sum : sums) sink = sink + 0 * double(sum[0]);
  return best;
}
#endif

#if defined(__AMX_BF16__) && defined(__linux__)
// Products of 16x32 by 32x16 tiles. Loading a configuration zeroes the tiles; the speed does not depend on it.
double Amx(double seconds) {
  constexpr int kArchReqXcompPerm = 0x1023, kTileData = 18;
  if (syscall(SYS_arch_prctl, kArchReqXcompPerm, kTileData) != 0) return 0;
  alignas(64) unsigned char config[64] = {1};
  for (int tile = 0; tile < 8; ++tile) {
    config[16 + 2 * tile] = 64;  // bytes per row
    config[48 + tile] = 16;      // rows
  }
  _tile_loadconfig(config);
  double best = 0;
  const double end = Now() + seconds;
  while (Now() < end) {
    const double begin = Now();
    for (int step = 0; step < kSteps / 16; ++step) {
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 4, 7);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
    best = std::max(best, kSteps / 16 * 4 * 2.0 * 16 * 16 * 32 / (Now() - begin));
  }
  _tile_release();
  return best;
}
#endif

double Copy(double seconds, size_t bytes) {
  const size_t copied = bytes / 2;
  std::vector<char> from(copied, 1), to(copied, 2);
  const size_t times = std::max<size_t>(1, (size_t{1} << 20) / copied);  // a clock takes longer than a small copy
  double best = 0;
  const double end = Now() + seconds;
  while (Now() < end) {
    const double begin = Now();
    for (size_t i = 0; i < times; ++i) {
      std::memcpy(to.data(), from.data(), copied);
      sink = sink + 0 * to[copied / 2];
    }
    best = std::max(best, 2.0 * copied * times / (Now() - begin));
  }
  return best;
}

// Returns the rate of all threads together, each at its best, in 1e9 per second.
template <typename Work>
double Best(int threads, double seconds, Work work) {
  std::vector<double> rates(threads);
  std::vector<std::thread> pool;
  for (auto& rate : rates) pool.emplace_back([&rate, work, seconds] { rate = work(seconds); });
  for (auto& thread : pool) thread.join();
  return std::accumulate(rates.begin(), rates.end(), 0.0) / 1e9;
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  const double seconds = argc > 2 ? std::atof(argv[2]) : 1;
  std::printf("{\"f32\": %.1f, \"f64\": %.1f", Best(threads, seconds, Fma<float>), Best(threads, seconds, Fma<double>));
#if defined(__AMX_BF16__) && defined(__linux__)
  std::printf(", \"amx bf16\": %.1f", Best(threads, seconds, Amx));
#endif
#ifdef __AVX512BF16__
  std::printf(", \"bf16\": %.1f", Best(threads, seconds, Bf16));
#endif
  std::printf(", \"copy\": {");
  for (size_t bytes = kLeastCopied; bytes <= kMostCopied; bytes *= 4) {
    const auto copy = [=](double time) { return Copy(time, bytes / threads); };
    std::printf("%s\"%zu\": %.1f", bytes == kLeastCopied ? "" : ", ", bytes, Best(threads, seconds / 4, copy));
  }
  std::printf("}}\n");
}
