// SPDX-License-Identifier: BSD-3-Clause
#include "lib/link/ipoib/shared/host_table.h"

#include <iterator>

namespace ipoib::link {

void HostTable::count(std::uint32_t source, std::size_t before, std::size_t after) {
  if (before > 0) by_size_.erase({before, source});
  if (after > 0) by_size_.emplace(after, source);
}

void HostTable::remove(Hosts::iterator host) {
  const std::uint32_t source = host->source;
  const auto of = sources_.find(source);
  const std::size_t before = of->second.size();
  index_.erase(host->key);
  of->second.erase(host);
  count(source, before, before - 1);
  if (before == 1) sources_.erase(of);
}

SharedHost& HostTable::heard(const SharedHostKey& key, const wire::HwAddr& hw,
                             std::uint32_t source) {
  SharedHost host{key, hw, source};
  if (const auto known = index_.find(key); known != index_.end()) {
    host = *known->second;
    host.hw = hw;
    host.source = source;
    remove(known->second);
  } else if (index_.size() >= max_) {
    remove(sources_.at(by_size_.rbegin()->second).begin());
    ++forgotten_;
  }
  Hosts& of = sources_[source];
  count(source, of.size(), of.size() + 1);
  of.push_back(host);
  index_.emplace(key, std::prev(of.end()));
  return of.back();
}

SharedHost* HostTable::find(const SharedHostKey& key) {
  const auto it = index_.find(key);
  return it == index_.end() ? nullptr : &*it->second;
}

}  // namespace ipoib::link
