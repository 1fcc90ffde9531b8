#include "testing/gpu/access.h"

#include "base/error.h"

namespace ortconv::cuda::ptx {
namespace {

constexpr char kPending[] = "which an asynchronous copy that was not waited for writes";

}  // namespace

User::User(uint64_t launch, uint64_t block, uint64_t epoch, uint64_t thread)
    : bits_((((launch << 20 | block) << 14 | epoch) << 11) | thread) {
  if (launch >= 1 << 19 || block >= kManyBlocks || epoch >= 1 << 14 || thread >= kManyThreads) {
    fail("more launches, blocks or barriers than can be told apart");
  }
}

User User::joined(User later) const {
  User result = later;
  if (bits_ == later.bits_ || launch() != later.launch() || !is_anybody()) return later;
  if (block() != later.block()) {
    result.bits_ = (later.launch() << 20 | kManyBlocks) << 25 | kManyThreads;
  } else if (epoch() == later.epoch()) {
    result.bits_ |= kManyThreads;
  }
  return result;
}

const char* Accesses::read(size_t at, size_t bytes, User user) {
  for (size_t i = at; i < at + bytes; ++i) {
    Place& place = places_[i];
    if (place.being_copied) return kPending;
    if (place.writer.races(user)) return "which another thread writes with no barrier in between";
    place.reader = place.reader.joined(user);
  }
  return nullptr;
}

const char* Accesses::write(size_t at, size_t bytes, User user, bool defined) {
  for (size_t i = at; i < at + bytes; ++i) {
    Place& place = places_[i];
    if (place.being_copied) return kPending;
    if (place.writer.races(user)) return "which another thread writes, too, with no barrier in between";
    if (place.reader.races(user)) return "which another thread reads with no barrier in between";
    place.writer = user;
    place.written_atomically = false;
    place.defined = defined;
  }
  return nullptr;
}

const char* Accesses::update_atomically(size_t at, size_t bytes, User user, bool defined) {
  for (size_t i = at; i < at + bytes; ++i) {
    Place& place = places_[i];
    if (place.being_copied) return kPending;
    if (place.writer.races(user) && !place.written_atomically) return "which another thread writes, not atomically";
    if (place.reader.races(user)) return "which another thread reads, not atomically";
    place.writer = place.writer.joined(user);
    place.written_atomically = true;
    place.defined = place.defined && defined;
  }
  return nullptr;
}

const char* Accesses::begin_copy(size_t at, size_t bytes, User user) {
  if (const char* const problem = write(at, bytes, user, false)) return problem;
  for (size_t i = at; i < at + bytes; ++i) places_[i].being_copied = true;
  return nullptr;
}

void Accesses::end_copy(size_t at, size_t bytes, User user, bool defined) {
  for (size_t i = at; i < at + bytes; ++i) {
    places_[i].being_copied = false;
    places_[i].writer = user;
    places_[i].defined = defined;
  }
}

bool Accesses::is_defined(size_t at, size_t bytes) const {
  for (size_t i = at; i < at + bytes; ++i) {
    if (!places_[i].defined) return false;
  }
  return true;
}

void Accesses::set_defined(size_t at, size_t bytes, bool defined) {
  for (size_t i = at; i < at + bytes; ++i) places_[i].defined = defined;
}

}  // namespace ortconv::cuda::ptx
