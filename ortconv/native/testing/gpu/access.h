// What is known of each place of a memory: whether it was written, and by which threads it was used.
//
// Two uses of a place, one of them a write, are ordered if they are of one thread, of one block with a barrier in
// between, or of two launches. Otherwise they are a race, whatever the numbers that came of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ortconv::cuda::ptx {

// Who uses memory: a thread of a block of a launch, between two barriers of the block.
class User {
 public:
  static constexpr uint64_t kManyThreads = 2047, kManyBlocks = (1 << 20) - 1;

  User() = default;  // nobody
  User(uint64_t launch, uint64_t block, uint64_t epoch, uint64_t thread);

  bool is_anybody() const { return bits_ != 0; }
  uint64_t block() const { return bits_ >> 25 & kManyBlocks; }
  uint64_t thread() const { return bits_ & kManyThreads; }

  // Whether nothing orders what the two do.
  bool races(User other) const {
    if (bits_ == other.bits_ || launch() != other.launch() || !is_anybody()) return false;
    return block() != other.block() || bits_ >> 11 == other.bits_ >> 11;
  }
  // Both of them, as far as later uses can race with them.
  User joined(User later) const;

 private:
  uint64_t launch() const { return bits_ >> 45; }
  uint64_t epoch() const { return bits_ >> 11 & 0x3fff; }

  uint64_t bits_ = 0;  // 19 of the launch, 20 of the block, 14 of the epoch, 11 of the thread
};

// The uses of a memory of so many bytes, each on its own. Functions return what is wrong with a use, or null.
class Accesses {
 public:
  Accesses(size_t bytes, bool defined) : places_(bytes) { set_defined(0, bytes, defined); }

  const char* read(size_t at, size_t bytes, User user);
  const char* write(size_t at, size_t bytes, User user, bool defined);
  const char* update_atomically(size_t at, size_t bytes, User user, bool defined);

  // An asynchronous copy may write at any time from `begin_copy` to `end_copy`.
  const char* begin_copy(size_t at, size_t bytes, User user);
  void end_copy(size_t at, size_t bytes, User user, bool defined);

  bool is_defined(size_t at, size_t bytes) const;
  void set_defined(size_t at, size_t bytes, bool defined);

 private:
  struct Place {
    User writer, reader;
    bool defined = false, being_copied = false, written_atomically = false;
  };

  std::vector<Place> places_;
};

}  // namespace ortconv::cuda::ptx
