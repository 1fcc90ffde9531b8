// Loads, stores, atomic operations and asynchronous copies, with all that can go wrong with an address.
#include <cstring>
#include <sstream>
#include <string>
#include <type_traits>

#include "testing/ptx/lanes.h"
#include "testing/ptx/shared_row.h"

namespace ortconv::cuda::ptx {
namespace {

// A generic address is a global one: nothing makes one of another space, or the machine would not know how.
enum class Space { kGeneric, kGlobal, kShared, kLocal, kParam };

// Memory that a lane may use: its bytes, and what is known of them.
struct Place {
  unsigned char* data;
  Accesses* accesses;  // null: read only
  size_t at;           // in `accesses`
  bool result = false;
};

std::string hex(uint64_t address) {
  std::ostringstream text;
  text << "0x" << std::hex << address;
  return text.str();
}

const char* name_of(Space space) {
  switch (space) {
    case Space::kGeneric:
    case Space::kGlobal:
      return "global";
    case Space::kShared:
      return "shared";
    case Space::kLocal:
      return "local";
    case Space::kParam:
      break;
  }
  return "parameter";
}

Place find_place(Warp& warp, Space space, int lane, uint64_t address, size_t bytes) {
  if (address % bytes != 0) warp.stop(lane, "address ", hex(address), " is misaligned");
  const auto inside = [&](uint64_t base, size_t size) {
    return address >= base && address - base < size && bytes <= size - (address - base);
  };
  Block& block = warp.block();
  if (space == Space::kGlobal || space == Space::kGeneric) {
    if (GlobalMemory::Allocation* const found = block.global().find(address, bytes)) {
      const size_t at = address - reinterpret_cast<uintptr_t>(found->data);
      return {found->data + at, &found->accesses, at, found->result};
    }
  } else if (space == Space::kShared && inside(kSharedBase, block.grid().shared_bytes)) {
    const size_t at = address - kSharedBase;
    return {block.shared() + at, &block.shared_accesses(), at};
  } else if (space == Space::kLocal && inside(kLocalBase, warp.local_bytes())) {
    const size_t at = address - kLocalBase;
    return {warp.local(lane) + at, &warp.local_accesses(lane), at};
  } else if (space == Space::kParam && inside(kParamBase, warp.param_bytes())) {
    // Parameters are never written.
    return {const_cast<unsigned char*>(block.grid().params.data()) + (address - kParamBase), nullptr, 0};
  }
  warp.stop(lane, std::to_string(bytes), " bytes at ", hex(address), " are not in ", name_of(space), " memory");
}

void check(Warp& warp, int lane, uint64_t address, const char* problem) {
  if (problem != nullptr) warp.stop(lane, "uses memory at ", hex(address), " ", problem);
}

// kCount numbers in memory of type M, in registers of type R.
template <Space kSpace, class M, class R, int kCount>
void load(Warp& warp, const Instruction& i, uint32_t lanes) {
  uint64_t addresses[kWarpLanes];
  warp.addresses(i, kCount, 0, lanes, addresses);
  R results[kCount][kWarpLanes];
  uint32_t defined[kCount] = {};
  for (int lane = 0; lane < kWarpLanes; ++lane) {
    if ((lanes >> lane & 1) == 0) continue;
    const Place place = find_place(warp, kSpace, lane, addresses[lane], sizeof(M) * kCount);
    if (place.accesses != nullptr) {
      const char* const problem =
          place.accesses->read(place.at, sizeof(M) * kCount, warp.block().user(warp.thread(lane)));
      check(warp, lane, addresses[lane], problem);
    }
    for (int k = 0; k < kCount; ++k) {
      M value;
      std::memcpy(&value, place.data + sizeof(M) * k, sizeof value);
      results[k][lane] = static_cast<R>(value);
      const bool known = place.accesses == nullptr || place.accesses->is_defined(place.at + sizeof(M) * k, sizeof(M));
      defined[k] |= static_cast<uint32_t>(known) << lane;
    }
  }
  for (int k = 0; k < kCount; ++k) warp.set(i.operands[k], results[k], lanes, defined[k]);
}

template <Space kSpace, class M, class R, int kCount>
void store(Warp& warp, const Instruction& i, uint32_t lanes) {
  uint64_t addresses[kWarpLanes];
  warp.addresses(i, 0, 0, lanes, addresses);
  for (int lane = 0; lane < kWarpLanes; ++lane) {
    if ((lanes >> lane & 1) == 0) continue;
    const Place place = find_place(warp, kSpace, lane, addresses[lane], sizeof(M) * kCount);
    for (int k = 0; k < kCount; ++k) {
      const auto value = static_cast<M>(warp.values<R>(i.operands[1 + k])[lane]);
      const bool known = (warp.defined(i.operands[1 + k]) >> lane & 1) != 0;
      if (place.result && !known) warp.stop(lane, "a value that was never written becomes part of a result");
      const char* const problem =
          place.accesses->write(place.at + sizeof(M) * k, sizeof(M), warp.block().user(warp.thread(lane)), known);
      check(warp, lane, addresses[lane], problem);
      std::memcpy(place.data + sizeof(M) * k, &value, sizeof value);
    }
  }
}

struct SetBits {
  static uint32_t apply(uint32_t a, uint32_t b) { return a | b; }
};
struct AddTo {
  static uint32_t apply(uint32_t a, uint32_t b) { return a + b; }
};

// kResult: the value before goes to the first operand.
template <class Fn, bool kResult>
void update(Warp& warp, const Instruction& i, uint32_t lanes) {
  constexpr int kAddress = kResult ? 1 : 0;
  uint64_t addresses[kWarpLanes];
  warp.addresses(i, kAddress, 0, lanes, addresses);
  uint32_t results[kWarpLanes] = {}, defined = 0;
  for (int lane = 0; lane < kWarpLanes; ++lane) {
    if ((lanes >> lane & 1) == 0) continue;
    const Place place = find_place(warp, Space::kGlobal, lane, addresses[lane], sizeof(uint32_t));
    const bool known = (warp.defined(i.operands[kAddress + 1]) >> lane & 1) != 0;
    defined |= static_cast<uint32_t>(place.accesses->is_defined(place.at, sizeof(uint32_t))) << lane;
    const char* const problem =
        place.accesses->update_atomically(place.at, sizeof(uint32_t), warp.block().user(warp.thread(lane)), known);
    check(warp, lane, addresses[lane], problem);
    std::memcpy(&results[lane], place.data, sizeof(uint32_t));
    const uint32_t after = Fn::apply(results[lane], warp.values<uint32_t>(i.operands[kAddress + 1])[lane]);
    std::memcpy(place.data, &after, sizeof after);
  }
  if (kResult) warp.set(i.operands[0], results, lanes, defined);
}

// The copy is carried out by the wait for its group, from what is in global memory then; until it is, nobody may touch
// where it goes to.
void begin_copy(Warp& warp, const Instruction& i, uint32_t lanes) {
  uint64_t to[kWarpLanes], from[kWarpLanes];
  warp.addresses(i, 0, 0, lanes, to);
  warp.addresses(i, 1, 1, lanes, from);
  warp.expect_defined(i.operands[2], lanes, "the size of a copy");
  const uint32_t* const valid = warp.values<uint32_t>(i.operands[2]);
  const size_t bytes = i.number;
  for (int lane = 0; lane < kWarpLanes; ++lane) {
    if ((lanes >> lane & 1) == 0) continue;
    const User user = warp.block().user(warp.thread(lane));
    if (bytes != 4 && bytes != 8 && bytes != 16) warp.stop(lane, "a copy of so many bytes");
    if (valid[lane] > bytes) warp.stop(lane, "more bytes of the source than are copied");
    if (from[lane] % bytes != 0) warp.stop(lane, "the source ", hex(from[lane]), " is misaligned");
    if (valid[lane] != 0) find_place(warp, Space::kGlobal, lane, from[lane], valid[lane]);
    const Place place = find_place(warp, Space::kShared, lane, to[lane], bytes);
    check(warp, lane, to[lane], place.accesses->begin_copy(place.at, bytes, user));
    warp.copies(lane).back().push_back({to[lane], from[lane], bytes, valid[lane]});
  }
}

void end_copy(Warp& warp, int lane, const Warp::Copy& copy) {
  const User user = warp.block().user(warp.thread(lane));
  const Place to = find_place(warp, Space::kShared, lane, copy.to, copy.bytes);
  bool defined = true;
  std::memset(to.data, 0, copy.bytes);
  if (copy.valid_bytes != 0) {
    const Place from = find_place(warp, Space::kGlobal, lane, copy.from, copy.valid_bytes);
    check(warp, lane, copy.from, from.accesses->read(from.at, copy.valid_bytes, user));
    defined = from.accesses->is_defined(from.at, copy.valid_bytes);
    std::memcpy(to.data, from.data, copy.valid_bytes);
  }
  to.accesses->end_copy(to.at, copy.bytes, user, defined);
}

void commit_copies(Warp& warp, const Instruction&, uint32_t lanes) {
  for (int lane = 0; lane < kWarpLanes; ++lane) {
    if ((lanes >> lane & 1) != 0) warp.copies(lane).emplace_back();
  }
}

// The last group is the one that is not committed yet.
void wait_for_copies(Warp& warp, const Instruction& i, uint32_t lanes) {
  for (int lane = 0; lane < kWarpLanes; ++lane) {
    if ((lanes >> lane & 1) == 0) continue;
    auto& groups = warp.copies(lane);
    for (; groups.size() > size_t{i.number} + 1; groups.pop_front()) {
      for (const Warp::Copy& copy : groups.front()) end_copy(warp, lane, copy);
    }
  }
}

// As instructions have it, with the point before it.
std::string space_name(Space space) {
  if (space == Space::kGeneric) return "";
  return std::string(".") + (space == Space::kParam ? "param" : name_of(space));
}

template <Space kSpace, class M, class R>
void add_of_type(const std::string& type, char r, Operations* all) {
  const std::string one(1, r), two = '{' + one + ',' + one + '}';
  const std::string four = '{' + one + ',' + one + ',' + one + ',' + one + '}';
  const std::string name = space_name(kSpace);
  auto& operations = *all;
  operations["ld" + name + '.' + type] = {one + ",[a]", load<kSpace, M, R, 1>};
  operations["ld" + name + ".v2." + type] = {two + ",[a]", load<kSpace, M, R, 2>};
  operations["ld" + name + ".v4." + type] = {four + ",[a]", load<kSpace, M, R, 4>};
  if constexpr (kSpace != Space::kParam) {
    operations["st" + name + '.' + type] = {"[a]," + one, store<kSpace, M, R, 1>};
    operations["st" + name + ".v2." + type] = {"[a]," + two, store<kSpace, M, R, 2>};
    operations["st" + name + ".v4." + type] = {"[a]," + four, store<kSpace, M, R, 4>};
  }
}

// Of registers that are wider than what is in memory.
template <Space kSpace, class M, class R>
void add_wide(const std::string& type, char r, Operations* all) {
  const std::string name = space_name(kSpace);
  (*all)["ld" + name + '.' + type + ' ' + r] = {r + std::string(",[a]"), load<kSpace, M, R, 1>};
  if constexpr (kSpace != Space::kParam) {
    (*all)["st" + name + '.' + type + " ," + r] = {std::string("[a],") + r, store<kSpace, M, R, 1>};
  }
}

template <Space kSpace>
void add_space(Operations* all) {
  for (const char* type : {"u16", "b16"}) add_of_type<kSpace, uint16_t, uint16_t>(type, 'h', all);
  for (const char* type : {"u32", "b32", "s32", "f32"}) add_of_type<kSpace, uint32_t, uint32_t>(type, 'w', all);
  for (const char* type : {"u64", "b64", "s64", "f64"}) add_of_type<kSpace, uint64_t, uint64_t>(type, 'd', all);
  for (const char* type : {"u8", "b8"}) add_of_type<kSpace, uint8_t, uint16_t>(type, 'h', all);
  add_of_type<kSpace, int8_t, int16_t>("s8", 'h', all);
  for (const char* type : {"u32", "b32"}) add_wide<kSpace, uint32_t, uint64_t>(type, 'd', all);
  for (const char* type : {"u16", "b16"}) add_wide<kSpace, uint16_t, uint32_t>(type, 'w', all);
  for (const char* type : {"u8", "b8"}) add_wide<kSpace, uint8_t, uint32_t>(type, 'w', all);
  add_wide<kSpace, int8_t, int32_t>("s8", 'w', all);
  add_wide<kSpace, int32_t, int64_t>("s32", 'd', all);
}

}  // namespace

void load_shared_row(Warp& warp, int lane, uint64_t address, uint16_t (&elements)[8], bool (&known)[8]) {
  const Place place = find_place(warp, Space::kShared, lane, address, sizeof elements);
  check(warp, lane, address, place.accesses->read(place.at, sizeof elements, warp.block().user(warp.thread(lane))));
  std::memcpy(elements, place.data, sizeof elements);
  for (int e = 0; e < 8; ++e) known[e] = place.accesses->is_defined(place.at + 2 * e, 2);
}

void add_memory_operations(Operations* all) {
  add_space<Space::kGeneric>(all);
  add_space<Space::kGlobal>(all);
  add_space<Space::kShared>(all);
  add_space<Space::kLocal>(all);
  add_space<Space::kParam>(all);
  auto& operations = *all;
  // Relaxed, and among the threads of the GPU, is what the ISA takes where nothing is said.
  for (const std::string order : {"", ".relaxed.gpu"}) {
    for (const std::string space : {"", ".global"}) {
      operations["atom" + order + space + ".or.b32"] = {"w,[a],w", update<SetBits, true>};
      operations["red" + order + space + ".or.b32"] = {"[a],w", update<SetBits, false>};
      operations["atom" + order + space + ".add.u32"] = {"w,[a],w", update<AddTo, true>};
      operations["red" + order + space + ".add.u32"] = {"[a],w", update<AddTo, false>};
    }
  }
  operations["cp.async.ca.shared.global"] = {"[a],[a],n,w", begin_copy};
  operations["cp.async.cg.shared.global"] = {"[a],[a],n,w", begin_copy};
  operations["cp.async.commit_group"] = {"", commit_copies};
  operations["cp.async.wait_group"] = {"n", wait_for_copies};
}

}  // namespace ortconv::cuda::ptx
