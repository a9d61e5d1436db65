#include "lib/sa/embedded/administrator.h"

#include <algorithm>
#include <vector>

#include "lib/sa/embedded/membership.h"
#include "lib/sa/embedded/paths.h"
#include "lib/sa/sa_mad.h"
#include "lib/wire/iba.h"

namespace ipoib::sa {
namespace {

using wire::Attr;
using wire::MadStatus;
using wire::Method;
using wire::SaMad;

constexpr std::uint16_t kUdMulticastSupported = 1U << 9;
constexpr std::uint32_t kSendOnlyFullMemberSupported = 1U << 12;
constexpr std::uint32_t kRespTime = 16;  ///< 268 ms.

/// What is to be answered: records with status 0, else none.
struct Records {
  std::size_t len = 0;  ///< Of one record; a multiple of 8, or 0 for an attribute of no table.
  std::vector<std::byte> bytes;
};

/// Records of `T` that fit one MAD, and one more to see that there are more.
template <class T>
constexpr std::size_t kLimit = wire::kSaDataLen / sizeof(T) + 1;

template <class T>
Query<T> query_of(const SaMad& mad, std::uint16_t from_lid, TimePoint now) {
  return {*wire::read<T>(mad.data), mad.hdr.comp_mask.host(), from_lid, mad.hdr.sm_key.host() != 0,
          now};
}

template <class T>
Records records_of(std::span<const T> records, std::size_t len = sizeof(T)) {
  const auto bytes = std::as_bytes(records);
  return {len, {bytes.begin(), bytes.end()}};
}

/// Get wants exactly one record; a table must fit its one segment.
template <class T>
Answer<Records> found(Method method, const std::vector<T>& records) {
  if (method == Method::kGet) {
    if (records.empty()) return refuse(MadStatus::kSaNoRecords);
    if (records.size() > 1) return refuse(MadStatus::kSaTooManyRecords);
  }
  if (records.size() >= kLimit<T>) return refuse(MadStatus::kSaNoResources);
  return records_of(std::span<const T>{records});
}

Answer<Records> one(const Answer<wire::McMemberRecord>& record) {
  if (!record) return refuse(record.error());
  return records_of(std::span<const wire::McMemberRecord>{&*record, 1});
}

Answer<Records> member_record(Subnet& subnet, Method method, const McQuery& q) {
  switch (method) {
    case Method::kSet: return one(join(subnet, q));
    case Method::kDelete: return one(leave(subnet, q));
    case Method::kGet:
    case Method::kGetTable: return found(method, find(subnet, q, kLimit<wire::McMemberRecord>));
    default: return refuse(MadStatus::kMethodAttributeNotSupported);
  }
}

Answer<Records> path_record(Subnet& subnet, Method method, const PathQuery& q) {
  if (method != Method::kGet && method != Method::kGetTable)
    return refuse(MadStatus::kMethodAttributeNotSupported);
  const auto paths = find_paths(subnet, q, kLimit<wire::PathRecord>);
  if (!paths) return refuse(paths.error());
  return found(method, *paths);
}

Answer<Records> class_port_info(Method method) {
  if (method != Method::kGet) return refuse(MadStatus::kMethodAttributeNotSupported);
  wire::ClassPortInfo info{};
  info.base_version = wire::kMadBaseVersion;
  info.class_version = wire::kSaClassVersion;
  info.capability_mask.set(kUdMulticastSupported);
  info.capability2_resp_time.set(kSendOnlyFullMemberSupported << 5 | kRespTime);
  info.redirect_qp.set(1);
  info.redirect_qkey.set(wire::kGsiQkey);
  info.trap_qkey.set(wire::kGsiQkey);
  return records_of(std::span<const wire::ClassPortInfo>{&info, 1}, 0);
}

Answer<Records> serve(Subnet& subnet, const SaMad& mad, std::uint16_t from_lid, TimePoint now) {
  const wire::MadHdr& hdr = mad.hdr.mad;
  const auto method = static_cast<Method>(hdr.method);
  if (hdr.base_version != wire::kMadBaseVersion || hdr.class_version != wire::kSaClassVersion)
    return refuse(MadStatus::kBadVersion);
  if (method != Method::kGet && method != Method::kSet && method != Method::kGetTable &&
      method != Method::kDelete)
    return refuse(MadStatus::kMethodNotSupported);
  const std::uint64_t sm_key = mad.hdr.sm_key.host();
  if (sm_key != 0 && sm_key != subnet.config.sm_key) return refuse(MadStatus::kSaDenied);

  switch (static_cast<Attr>(hdr.attr_id.host())) {
    case Attr::kMcMemberRecord:
      return member_record(subnet, method, query_of<wire::McMemberRecord>(mad, from_lid, now));
    case Attr::kPathRecord:
      return path_record(subnet, method, query_of<wire::PathRecord>(mad, from_lid, now));
    case Attr::kClassPortInfo: return class_port_info(method);
    default: return refuse(MadStatus::kMethodAttributeNotSupported);
  }
}

/// The header common to answer and refusal: the request's, turned round.
SaMad reply_to(const SaMad& request) {
  SaMad mad = request;
  mad.hdr.mad.base_version = wire::kMadBaseVersion;
  mad.hdr.mad.class_version = wire::kSaClassVersion;
  mad.hdr.mad.method = response_of(request.hdr.mad.method);
  mad.hdr.mad.status.set(0);
  mad.hdr.mad.class_specific.set(0);
  mad.hdr.rmpp_version = mad.hdr.rmpp_type = 0;
  mad.hdr.rmpp_rtime_flags = mad.hdr.rmpp_status = 0;
  mad.hdr.rmpp_segment.set(0);
  mad.hdr.rmpp_len.set(0);
  mad.hdr.sm_key.set(0);
  mad.hdr.attr_offset.set(0);
  return mad;
}

SaMad with_records(const SaMad& request, const Records& records) {
  SaMad mad = reply_to(request);
  mad.data.fill(std::byte{0});
  std::copy(records.bytes.begin(), records.bytes.end(), mad.data.begin());
  mad.hdr.attr_offset.set(static_cast<std::uint16_t>(records.len / 8));
  if (request.hdr.mad.method == static_cast<std::uint8_t>(Method::kGetTable)) {
    mad.hdr.rmpp_version = kRmppVersion;
    mad.hdr.rmpp_type = kRmppData;
    mad.hdr.rmpp_rtime_flags = kRmppNoRespTime | kRmppOnlySegment;
    mad.hdr.rmpp_segment.set(1);
    mad.hdr.rmpp_len.set(kRmppSaHeaderLen + static_cast<std::uint32_t>(records.bytes.size()));
  }
  return mad;
}

/// Methods that ask something; to the others nothing is ever said, so that two administrators
/// cannot answer each other's answers.
bool asks(std::uint8_t method) {
  if ((method & wire::kMethodResponse) != 0) return false;
  switch (static_cast<Method>(method)) {
    case Method::kSend:
    case Method::kTrap:
    case Method::kTrapRepress: return false;
    default: return true;
  }
}

}  // namespace

Result<Administrator> Administrator::create(const AdministratorConfig& config) {
  if (!wire::is_unicast_lid(config.lid))
    return fail(Errc::kInvalidArgument, "administrator's LID 0x{:04x} is not a unicast LID",
                config.lid);
  if (config.gid.guid() == 0 || config.gid.is_multicast())
    return fail(Errc::kInvalidArgument, "administrator's port has no usable GID");
  if (wire::mtu_octets(config.mtu) == 0)
    return fail(Errc::kInvalidArgument, "subnet MTU code {} does not exist", config.mtu);
  if (wire::rate_mbps(config.rate) == 0)
    return fail(Errc::kInvalidArgument, "subnet rate code {} does not exist", config.rate);
  if (config.sl > 15 || config.lifetime > 0x3f)
    return fail(Errc::kInvalidArgument, "subnet SL {} or packet lifetime {} is out of range",
                config.sl, config.lifetime);
  if (config.scope == 0 || config.scope > 14)
    return fail(Errc::kInvalidArgument, "multicast scope {} is not 1 to 14", config.scope);
  if (config.partitions.empty() || config.partitions.size() > config.max_groups)
    return fail(Errc::kInvalidArgument, "subnet has {} partitions, allowed are 1 to {}",
                config.partitions.size(), config.max_groups);
  for (const Partition& p : config.partitions)
    if (partition_of(p.pkey) == 0)
      return fail(Errc::kInvalidArgument, "P_Key 0x{:04x} names no partition", p.pkey);
  return Administrator{config};
}

Administrator::Administrator(const AdministratorConfig& config) : subnet_{config} {
  subnet_.ports.add_own(config.gid, config.lid);
  create_broadcast_groups(subnet_);
}

std::optional<SaMad> Administrator::answer(const fabric::MadAddress& from,
                                           std::span<const std::byte> bytes, TimePoint now) {
  ++counters_.received;
  const auto ignore = [](std::uint64_t& counter) {
    ++counter;
    return std::nullopt;
  };
  if (bytes.size() != wire::kMadLen) return ignore(counters_.ignored_length);
  const SaMad request = *wire::read<SaMad>(bytes);
  const wire::MadHdr& hdr = request.hdr.mad;
  if (hdr.mgmt_class != static_cast<std::uint8_t>(wire::MgmtClass::kSubnAdm))
    return ignore(counters_.ignored_class);
  if (!wire::is_unicast_lid(from.lid)) return ignore(counters_.ignored_source);
  if (!asks(hdr.method)) return ignore(counters_.ignored_no_request);
  // Who receives a table as RMPP acknowledges it, under the method of its request.
  if ((request.hdr.rmpp_rtime_flags & kRmppActive) != 0) return ignore(counters_.ignored_rmpp);

  const auto records = serve(subnet_, request, from.lid, now);
  if (records) {
    ++counters_.answered;
    return with_records(request, *records);
  }
  const auto status = static_cast<std::uint16_t>(records.error());
  ++counters_.refused[status];
  SaMad refusal = reply_to(request);
  refusal.hdr.mad.status.set(status);
  return refusal;
}

}  // namespace ipoib::sa
