// SPDX-License-Identifier: BSD-3-Clause
// Gives access to the generated frames of the test vectors by name.
#pragma once

#include <algorithm>
#include <stdexcept>
#include <string>

#include "lib/wire/iba.h"
#include "tests/support/vectors.h"

namespace ipoib::test {

inline const nlohmann::json& frames() {
  static const nlohmann::json all = load_vectors("frames-generated.json").at("frames");
  return all;
}
inline const nlohmann::json& frame_named(const std::string& name) {
  const auto found = std::find_if(frames().begin(), frames().end(),
                                  [&](const nlohmann::json& f) { return f.at("name") == name; });
  if (found == frames().end()) throw std::runtime_error("no frame " + name);
  return *found;
}
/// Returns the octets from LRH to ICRC.
inline Bytes packet_of(const nlohmann::json& frame) {
  const Bytes whole = octets(frame.at("hex"));
  return {whole.begin(), whole.end() - wire::kVcrcLen};
}
inline Bytes packet_named(const std::string& name) {
  return packet_of(frame_named(name));
}

}  // namespace ipoib::test
