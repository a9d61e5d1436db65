// SPDX-License-Identifier: BSD-3-Clause
// CM MADs, each after one octet of options: corrected IDs, so that the MAD belongs to a connection;
// actions of the consumers; passing time. For every input, state is bounded, every handle is
// released once, and nothing is left at the end.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <map>

#include "lib/cm/manager.h"
#include "lib/wire/ipoib_cm.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace ipoib;
using ipoib::test::require;

constexpr std::size_t kRecord = 1 + wire::kMadLen;
constexpr std::size_t kMaxHalfOpen = 4;
constexpr std::uint64_t kService = wire::ipoib_service_id(wire::ServiceIdForm::kIetf, 0x49);

struct Does {
  static constexpr unsigned kIds = 1;     ///< The IDs are those of an existing connection.
  static constexpr unsigned kHeader = 2;  ///< The header is readable.
  static constexpr unsigned kAccept = 4, kReject = 8, kTime = 16, kDisconnect = 32, kConnect = 64,
                            kTraffic = 128;
};

struct Consumer final : cm::Consumer {
  cm::Manager* manager = nullptr;
  unsigned does = 0;
  std::map<cm::Handle, bool> closed;

  void on_request(cm::Handle h, const wire::CmReq& req, const fabric::MadAddress&,
                  TimePoint now) override {
    require(closed.emplace(h, false).second);
    require(req.local_qpn.host() > 1);
    cm::AcceptParams params;
    params.qpn = 0x500 + (h & 0xff);
    if ((does & Does::kAccept) != 0) (void)manager->accept(h, params, now);
    if ((does & Does::kReject) != 0) (void)manager->reject(h, wire::RejReason::kConsumer, now);
  }
  void on_reply(cm::Handle h, const wire::CmRep&, TimePoint now) override {
    require(closed.count(h) != 0);
    if ((does & Does::kAccept) != 0) (void)manager->confirm(h, now);
    if ((does & Does::kReject) != 0) (void)manager->reject(h, wire::RejReason::kPathMtu, now);
  }
  void on_established(cm::Handle h, TimePoint) override { require(closed.count(h) != 0); }
  void on_closed(cm::Handle h, const cm::Closed& c, TimePoint) override {
    require(closed.count(h) != 0 && !closed[h]);
    require(!to_string(c.reason).empty() && !to_string(c.rej.why()).empty());
    closed[h] = true;
  }
  void on_released(cm::Handle h, TimePoint) override { require(closed.erase(h) == 1); }
};

template <wire::CmMessage T>
void round_trip(const wire::CmMad& mad) {
  if (mad.attr() != T::kAttr) return;
  const wire::CmMad again = wire::make_cm_mad(mad.hdr.tid.host(), wire::cm_message<T>(mad));
  require(again.data == mad.data);
}

void read_alone(std::span<const std::byte> octets) {
  wire::CmMad mad;
  const wire::CmError error = wire::parse_cm_mad(octets, mad);
  require(!wire::cm_error_name(error).empty());
  require((error == wire::CmError::kLength) == (octets.size() != wire::kMadLen));
  if (error != wire::CmError::kNone) return;
  require(!to_string(mad.attr()).empty());
  round_trip<wire::CmReq>(mad);
  round_trip<wire::CmMra>(mad);
  round_trip<wire::CmRej>(mad);
  round_trip<wire::CmRep>(mad);
  round_trip<wire::CmRtu>(mad);
  round_trip<wire::CmDreq>(mad);
  round_trip<wire::CmDrep>(mad);
  round_trip<wire::CmSidrReq>(mad);
  round_trip<wire::CmSidrRep>(mad);
  round_trip<wire::CmLap>(mad);
  round_trip<wire::CmApr>(mad);
}

/// Changes the MAD as its octet of options says.
void put_right(fabric::MadBytes& bytes, unsigned does, const cm::Manager& manager) {
  if ((does & Does::kHeader) != 0) {
    bytes[0] = std::byte{wire::kMadBaseVersion};
    bytes[1] = static_cast<std::byte>(wire::MgmtClass::kComMgt);
    bytes[2] = std::byte{wire::kCmClassVersion};
    bytes[3] = static_cast<std::byte>(wire::Method::kSend);
    bytes[16] = std::byte{0};
    bytes[17] =
        static_cast<std::byte>(0x10 + std::to_integer<unsigned>(bytes[17]) % wire::kCmAttrs);
  }
  const auto& all = manager.connections().all();
  if ((does & Does::kIds) == 0 || all.empty()) return;
  const auto nth = std::to_integer<std::size_t>(bytes[15]) % all.size();
  const cm::Connection& c = std::next(all.begin(), static_cast<std::ptrdiff_t>(nth))->second;
  std::span<std::byte> message = std::span{bytes}.subspan(sizeof(wire::MadHdr));
  if (bytes[17] == std::byte{0x10}) {  // A REQ names its own ID, service, CA and QP.
    require(write(message, 8, wire::Be64{kService}));
    if ((bytes[14] & std::byte{1}) != std::byte{0}) {
      require(write(message, 0, wire::Be32{c.remote_id}));
      require(write(message, 16, wire::Be64{c.remote_guid}));
      require(write(message, 32, wire::Be24{c.remote_qpn}));
    }
    return;
  }
  require(write(message, 4, wire::Be32{c.id}));
  if (c.remote_id != 0) require(write(message, 0, wire::Be32{c.remote_id}));
  if (bytes[17] == std::byte{0x15}) require(write(message, 8, wire::Be24{c.local_qpn}));
}

void live(std::span<const std::byte> octets) {
  TimePoint now{std::chrono::seconds(1)};
  std::size_t sent = 0;
  Consumer consumer;
  cm::ManagerConfig config;
  config.ca_guid = 1;
  config.max_half_open = kMaxHalfOpen;
  config.max_connections = 16;
  cm::Manager manager{[&](const auto&, std::span<const std::byte, wire::kMadLen> mad) {
                        ++sent;
                        wire::CmMad ours;
                        require(wire::parse_cm_mad(mad, ours) == wire::CmError::kNone);
                        return Status{};
                      },
                      config, 1};
  consumer.manager = &manager;
  require(manager.listen(kService, consumer, {std::byte{1}}).has_value());
  manager.serve(kService, [](const auto&, const auto&) { return wire::CmSidrRep{}; });
  for (; octets.size() >= kRecord; octets = octets.subspan(kRecord)) {
    consumer.does = std::to_integer<unsigned>(octets[0]);
    if ((consumer.does & Does::kConnect) != 0) {
      cm::ConnectParams params;
      params.qpn = 0x400;
      params.to.lid = 1;
      if (const auto handle = manager.connect(params, consumer, now))
        require(consumer.closed.emplace(*handle, false).second);
    }
    fabric::ReceivedMad mad;
    std::memcpy(mad.bytes.data(), octets.data() + 1, wire::kMadLen);
    put_right(mad.bytes, consumer.does, manager);
    const std::size_t before = sent;
    manager.on_mad(mad, now);
    require(sent <= before + 4);  // 2 DREQs to stale connections, a REJ, an answer.
    require(manager.half_open() <= kMaxHalfOpen && manager.size() <= 16);
    if (!consumer.closed.empty()) {
      const cm::Handle first = consumer.closed.begin()->first;
      if ((consumer.does & Does::kTraffic) != 0) manager.on_traffic(first, now);
      if ((consumer.does & Does::kDisconnect) != 0) (void)manager.disconnect(first, now);
    }
    if ((consumer.does & Does::kTime) == 0) continue;
    if (const auto due = manager.next_deadline()) manager.tick(now = std::max(now, *due));
  }
  consumer.does = 0;
  manager.shutdown(now);
  for (int i = 0; i < 10'000 && manager.next_deadline(); ++i)
    manager.tick(now = std::max(now, *manager.next_deadline()));
  require(manager.size() == 0 && manager.half_open() == 0);
  require(consumer.closed.empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto octets = ipoib::test::input(data, size);
  read_alone(octets);
  for (std::size_t at = 0; at + kRecord <= octets.size(); at += kRecord)
    read_alone(octets.subspan(at + 1, wire::kMadLen));
  live(octets);
  return 0;
}
