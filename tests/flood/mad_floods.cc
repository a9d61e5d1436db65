// SPDX-License-Identifier: BSD-3-Clause
#include "tests/flood/mad_floods.h"

#include <algorithm>
#include <cstring>

#include "lib/wire/cm_mads.h"
#include "lib/wire/ipoib_cm.h"
#include "lib/wire/sa_records.h"
#include "tests/flood/flood_frames.h"

namespace ipoib::flood {
namespace {

constexpr std::size_t kTid = kUdHead + offsetof(wire::MadHdr, tid);
constexpr std::size_t kBody = kUdHead + sizeof(wire::MadHdr);
constexpr std::size_t kRecord = kUdHead + sizeof(wire::SaHdr);
constexpr std::size_t kSlid = kEthHead + offsetof(wire::Lrh, slid);
/// Senders are ports that nothing else uses.
constexpr std::uint16_t kFirstLid = 0x8000, kLids = 0x3000;

wire::SaMad sa_request(wire::Method method, wire::Attr attr) {
  wire::SaMad mad{};
  mad.hdr.mad.base_version = wire::kMadBaseVersion;
  mad.hdr.mad.mgmt_class = static_cast<std::uint8_t>(wire::MgmtClass::kSubnAdm);
  mad.hdr.mad.class_version = wire::kSaClassVersion;
  mad.hdr.mad.method = static_cast<std::uint8_t>(method);
  mad.hdr.mad.attr_id.set(static_cast<std::uint16_t>(attr));
  return mad;
}

wire::SaMad path_request() {
  wire::SaMad mad = sa_request(wire::Method::kGet, wire::Attr::kPathRecord);
  wire::PathRecord record{};
  record.dgid = record.sgid = gid_of(1);
  record.pkey.set(wire::kDefaultPkey);
  record.reversible_numb = 1;
  mad.hdr.comp_mask.set(wire::PathRecord::kIpoibMask);
  std::ranges::copy(wire::bytes_of(record), mad.data.begin());
  return mad;
}

template <class T>
Bytes frame_with(const T& mad) {
  return mad_frame({kFirstLid, 1, {}}, FloodNode::kLid, wire::bytes_of(mad));
}

Bytes frame_of(MadKind kind) {
  switch (kind) {
    case MadKind::kUnknownClass: {
      wire::SaMad mad = sa_request(wire::Method::kGet, wire::Attr::kClassPortInfo);
      mad.hdr.mad.mgmt_class = 0x3f;
      return frame_with(mad);
    }
    case MadKind::kGet: return frame_with(path_request());
    case MadKind::kGetTable:
      return frame_with(sa_request(wire::Method::kGetTable, wire::Attr::kMcMemberRecord));
    case MadKind::kReq: return frame_with(wire::make_cm_mad(0, wire::CmReq{}));
    case MadKind::kRej: return frame_with(wire::make_cm_mad(0, wire::CmRej{}));
    case MadKind::kDreq: return frame_with(wire::make_cm_mad(0, wire::CmDreq{}));
    case MadKind::kSidrReq: break;
  }
  return frame_with(wire::make_cm_mad(0, wire::CmSidrReq{}));
}

}  // namespace

std::string_view mad_text(MadKind kind) {
  switch (kind) {
    case MadKind::kUnknownClass: return "MADs of an unknown class";
    case MadKind::kGet: return "Get PathRecord, between ports that do not exist";
    case MadKind::kGetTable: return "GetTable MCMemberRecord";
    case MadKind::kReq: return "REQ with random content";
    case MadKind::kRej: return "REJ with random IDs";
    case MadKind::kDreq: return "DREQ with random IDs";
    case MadKind::kSidrReq: break;
  }
  return "SIDR_REQ for random services";
}

Flood mads_of(FloodNode& node, MadKind kind) {
  return [&node, kind, frame = frame_of(kind), random = Random{5}]() mutable {
    node.give(Side::kCable, frame, [&](std::byte* octets) {
      put(octets + kSlid, static_cast<std::uint16_t>(kFirstLid + random.below(kLids)));
      put(octets + kTid, random.next());
      switch (kind) {
        case MadKind::kUnknownClass:
        case MadKind::kGetTable: break;
        case MadKind::kGet:
          put(octets + kRecord + offsetof(wire::PathRecord, dgid) + 8, random.next());
          put(octets + kRecord + offsetof(wire::PathRecord, sgid) + 8, random.next());
          break;
        case MadKind::kReq:
          for (std::size_t at = 0; at + 8 <= 140; at += 8) put(octets + kBody + at, random.next());
          break;
        case MadKind::kRej:
        case MadKind::kDreq:
          put(octets + kBody, random.next());
          put(octets + kBody + 8, static_cast<std::uint16_t>(random.next() & 0x3f7f));
          break;
        case MadKind::kSidrReq:
          put(octets + kBody, static_cast<std::uint32_t>(random.next()));
          put(octets + kBody + 8, random.next());
          break;
      }
    });
  };
}

}  // namespace ipoib::flood
