// SHA-256 (FIPS 180-4).
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace ortconv {

using Sha256 = std::array<uint8_t, 32>;

Sha256 sha256(const std::string& data);

// In lower case.
std::string hexadecimal(const Sha256& digest);

}  // namespace ortconv
