// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/verbs/rebuilt_packet.h"

#include <cstring>

#include "lib/base/contract.h"

namespace ipoib::verbs {
namespace {

std::size_t padded(std::size_t payload_len) {
  return (payload_len + 3) & ~std::size_t{3};
}

wire::Lrh lrh_of(const PacketHead& head, std::size_t len) {
  const auto lnh = static_cast<unsigned>(head.grh ? wire::Lnh::kGlobal : wire::Lnh::kLocal);
  wire::Lrh lrh{};
  lrh.sl_lnh = static_cast<std::uint8_t>(unsigned{head.sl} << 4 | lnh);
  lrh.dlid.set(head.dlid);
  lrh.resv_pktlen.set(static_cast<std::uint16_t>(len / 4));
  lrh.slid.set(head.slid);
  return lrh;
}

wire::Grh grh_of(const wire::GrhSpec& spec, std::size_t len) {
  wire::Grh grh{};
  grh.version_tclass_flow = wire::Grh::pack(spec.tclass, spec.flow_label);
  grh.pay_len.set(static_cast<std::uint16_t>(len - sizeof(wire::Lrh) - sizeof(wire::Grh)));
  grh.next_header = wire::Grh::kNextHeaderIba;
  grh.hop_limit = spec.hop_limit;
  grh.sgid = spec.sgid;
  grh.dgid = spec.dgid;
  return grh;
}

wire::Bth bth_of(const PacketHead& head, std::size_t pad) {
  wire::Bth bth{};
  bth.opcode = static_cast<std::uint8_t>(head.opcode);
  bth.flags =
      static_cast<std::uint8_t>((head.mig_req ? unsigned{wire::Bth::kMigReq} : 0) | pad << 4);
  bth.pkey.set(head.pkey);
  bth.dest_qp.set(head.dest_qp);
  bth.psn.set(head.psn);
  return bth;
}

wire::Deth deth_of(const PacketHead::Datagram& datagram) {
  wire::Deth deth{};
  deth.qkey.set(datagram.qkey);
  deth.src_qp.set(datagram.src_qp);
  return deth;
}

}  // namespace

std::size_t head_len(const PacketHead& head) noexcept {
  return sizeof(wire::Lrh) + (head.grh ? sizeof(wire::Grh) : 0) + sizeof(wire::Bth) +
         (head.datagram ? sizeof(wire::Deth) : 0) + (head.immediate ? sizeof(wire::Be32) : 0);
}

std::size_t packet_len(const PacketHead& head, std::size_t payload_len) noexcept {
  return head_len(head) + padded(payload_len) + wire::kIcrcLen;
}

void complete_packet(const PacketHead& head, std::size_t payload_len,
                     std::span<std::byte> packet) noexcept {
  const std::size_t len = packet.size();
  expects([&] { return len == packet_len(head, payload_len) && len / 4 <= 0x7ff; },
          "the packet has the length of its parts");
  const std::size_t pad = padded(payload_len) - payload_len;
  std::byte* at = packet.data();
  const auto put = [&at](const auto& header) {
    std::memcpy(at, &header, sizeof(header));
    at += sizeof(header);
  };
  put(lrh_of(head, len));
  if (head.grh) put(grh_of(*head.grh, len));
  put(bth_of(head, pad));
  if (head.datagram) put(deth_of(*head.datagram));
  if (head.immediate) put(*head.immediate);
  std::memset(at + payload_len, 0, pad);
  wire::put_icrc(packet);
}

}  // namespace ipoib::verbs
