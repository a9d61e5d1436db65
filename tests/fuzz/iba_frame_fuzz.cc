// SPDX-License-Identifier: BSD-3-Clause
// Headers of whole packets: a parsed packet lies inside of the octets, and parses to the same after
// being built again.
#include <algorithm>
#include <array>

#include "lib/wire/frame.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace ipoib::wire;
using ipoib::test::require;

UdSpec spec_of(const UdFrame& ud, std::span<const std::byte> packet) {
  UdSpec spec;
  spec.vl = ud.iba.lrh.vl();
  spec.sl = ud.iba.lrh.sl();
  spec.dlid = ud.iba.lrh.dlid.host();
  spec.slid = ud.iba.lrh.slid.host();
  if (ud.iba.global) {
    const Grh grh = grh_of(packet);
    spec.grh = GrhSpec{grh.sgid, grh.dgid, grh.tclass(), grh.flow_label(), grh.hop_limit};
  }
  spec.pkey = ud.iba.bth.pkey.host();
  spec.dest_qp = ud.iba.bth.dest_qp.host();
  spec.src_qp = ud.deth.src_qp.host();
  spec.qkey = ud.deth.qkey.host();
  spec.psn = ud.iba.bth.psn.host();
  spec.solicited = (ud.iba.bth.flags & Bth::kSolicited) != 0;
  spec.mig_req = (ud.iba.bth.flags & Bth::kMigReq) != 0;
  return spec;
}

void check_rebuilt(const UdFrame& ud, std::span<const std::byte> packet) {
  const auto payload = packet.subspan(ud.payload, ud.payload_len);
  if (ud.payload_len > kMaxPayload) return;  // The parser does not check the MTU.
  std::array<std::byte, kMaxUdPacketLen> out;
  const std::size_t len = build_ud_packet(spec_of(ud, packet), payload, out);
  require(len == packet.size());

  const std::span<const std::byte> built{out.data(), len};
  UdFrame again;
  require(parse_ud(built, again) == FrameError::kNone);
  require(icrc_is_good(built));
  require(again.iba.bth.pkey == ud.iba.bth.pkey && again.iba.bth.dest_qp == ud.iba.bth.dest_qp);
  require(again.deth.qkey == ud.deth.qkey && again.deth.src_qp == ud.deth.src_qp);
  require(std::ranges::equal(payload, built.subspan(again.payload, again.payload_len)));
  if (ud.iba.global)
    require(grh_of(built).version_tclass_flow == grh_of(packet).version_tclass_flow);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto octets = ipoib::test::input(data, size);
  UdFrame ud;
  const FrameError error = parse_ud(octets, ud);
  require(!frame_error_name(error).empty());
  IbaFrame iba;
  const FrameError iba_error = parse_iba(octets, iba);
  require(error != FrameError::kNone || iba_error == FrameError::kNone);
  if (iba_error != FrameError::kNone) return 0;

  require(iba.packet_len <= octets.size());
  require(std::size_t{iba.body} + iba.body_len + iba.bth.pad() + kIcrcLen == iba.packet_len);
  const auto packet = octets.first(iba.packet_len);
  (void)icrc_is_good(packet);
  if (error == FrameError::kNone) check_rebuilt(ud, packet);
  return 0;
}
