// SPDX-License-Identifier: BSD-3-Clause
#include "lib/sa/embedded/administrator.h"

#include <algorithm>
#include <vector>

#include "lib/base/log.h"
#include "lib/sa/embedded/inform.h"
#include "lib/sa/embedded/membership.h"
#include "lib/sa/embedded/paths.h"
#include "lib/sa/sa_mad.h"
#include "lib/wire/iba.h"
#include "lib/wire/ipoib.h"

namespace ipoib::sa {
namespace {

using wire::Attr;
using wire::MadStatus;
using wire::Method;
using wire::SaMad;

constexpr std::uint16_t kUdMulticastSupported = 1U << 9;
constexpr std::uint32_t kSendOnlyFullMemberSupported = 1U << 12;
constexpr std::uint32_t kRespTime = 16;  ///< 268 ms.
/// Log lines about ports that other hosts can cause.
constexpr Duration kLogInterval = std::chrono::seconds(1);
constexpr std::uint32_t kLogBurst = 8;

/// The records of an answer with status 0.
struct Records {
  std::size_t len = 0;  ///< Octets of one record: a multiple of 8; 0: no tables of it.
  std::vector<std::byte> bytes;
};

/// Number of records of `T` to search for: one more than the largest table, or a Get, may return,
/// to detect an excess.
template <class T>
std::size_t limit_of(const Subnet& subnet, Method method) {
  return method == Method::kGet ? 2 : subnet.config.max_answer_octets / sizeof(T) + 1;
}

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

/// Checks the number of records: Get must find exactly one.
template <class T>
Answer<Records> found(const Subnet& subnet, Method method, const Answer<std::vector<T>>& answer) {
  if (!answer) return refuse(answer.error());
  const std::vector<T>& records = *answer;
  if (method == Method::kGet) {
    if (records.empty()) return refuse(MadStatus::kSaNoRecords);
    if (records.size() > 1) return refuse(MadStatus::kSaTooManyRecords);
  } else if (records.size() >= limit_of<T>(subnet, method)) {
    return refuse(MadStatus::kSaNoResources);
  }
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
    case Method::kGetTable:
      return found(subnet, method, find(subnet, q, limit_of<wire::McMemberRecord>(subnet, method)));
    default: return refuse(MadStatus::kMethodAttributeNotSupported);
  }
}

Answer<Records> path_record(Subnet& subnet, Method method, const PathQuery& q) {
  if (method != Method::kGet && method != Method::kGetTable)
    return refuse(MadStatus::kMethodAttributeNotSupported);
  // Get returns one of several paths, as from a real SA.
  const std::size_t limit = method == Method::kGet ? 1 : limit_of<wire::PathRecord>(subnet, method);
  return found(subnet, method, find_paths(subnet, q, limit));
}

/// The answer has a record length, as from a real SA.
Answer<Records> inform_info(Subnet& subnet, Method method, const InformQuery& q,
                            const fabric::MadAddress& from) {
  if (method != Method::kSet) return refuse(MadStatus::kMethodAttributeNotSupported);
  const auto info = set_inform_info(subnet, q, from);
  if (!info) return refuse(info.error());
  return records_of(std::span<const wire::InformInfo>{&*info, 1});
}

Answer<Records> inform_info_record(const Subnet& subnet, Method method,
                                   const InformRecordQuery& q) {
  if (method != Method::kGet && method != Method::kGetTable)
    return refuse(MadStatus::kMethodAttributeNotSupported);
  return found<wire::InformInfoRecord>(
      subnet, method,
      find_subscriptions(subnet, q, limit_of<wire::InformInfoRecord>(subnet, method)));
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

Answer<Records> serve(Subnet& subnet, const SaMad& mad, const fabric::MadAddress& from,
                      TimePoint now) {
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
      return member_record(subnet, method, query_of<wire::McMemberRecord>(mad, from.lid, now));
    case Attr::kPathRecord:
      return path_record(subnet, method, query_of<wire::PathRecord>(mad, from.lid, now));
    case Attr::kClassPortInfo: return class_port_info(method);
    case Attr::kInformInfo:
      return inform_info(subnet, method, query_of<wire::InformInfo>(mad, from.lid, now), from);
    case Attr::kInformInfoRecord:
      return inform_info_record(subnet, method,
                                query_of<wire::InformInfoRecord>(mad, from.lid, now));
    default: return refuse(MadStatus::kMethodAttributeNotSupported);
  }
}

/// Returns the request with the header that answers and refusals have in common.
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
  std::copy_n(records.bytes.begin(), std::min(records.bytes.size(), mad.data.size()),
              mad.data.begin());
  mad.hdr.attr_offset.set(static_cast<std::uint16_t>(records.len / 8));
  return mad;
}

wire::Smp port_info_request() {
  return wire::smp_get(wire::MgmtClass::kSubnLid, wire::SmpAttr::kPortInfo, 0, 0);
}

/// Returns a Set of a port's own PortInfo, with the request for reregistration. The states of the
/// port stay as they are. A port takes a Set with its M_Key only (IBA vol 1 §14.2.4).
wire::Smp reregister_request(wire::PortInfo info) {
  info.speed_state &= 0xf0;
  info.phys_down &= 0x0f;
  info.set_client_reregister();
  wire::Smp smp = port_info_request();
  smp.mad.method = static_cast<std::uint8_t>(Method::kSet);
  smp.m_key = info.m_key;
  static_cast<void>(wire::write(std::span{smp.data}, 0, info));
  return smp;
}

bool is_table(const SaMad& request) {
  return request.hdr.mad.method == static_cast<std::uint8_t>(Method::kGetTable);
}

/// True for methods of requests. Other methods are never answered, so that two administrators
/// cannot answer each other's answers.
bool asks(std::uint8_t method) {
  if ((method & wire::kMethodResponse) != 0) return false;
  switch (static_cast<Method>(method)) {
    case Method::kSend:
    case Method::kTrap:
    case Method::kTrapRepress:
    case Method::kReport: return false;
    default: return true;
  }
}

}  // namespace

Result<Administrator> Administrator::create(const AdministratorConfig& config) {
  if (!wire::is_unicast_lid(config.lid))
    return fail(Errc::kInvalidArgument, "subnet administrator: LID 0x{:04x} is not a unicast LID",
                config.lid);
  if (config.lmc > 7 || config.lid % (1U << config.lmc) != 0)
    return fail(Errc::kInvalidArgument,
                "subnet administrator: LMC {} does not match base LID 0x{:04x}", config.lmc,
                config.lid);
  if (config.gid.guid() == 0 || config.gid.is_multicast())
    return fail(Errc::kInvalidArgument, "subnet administrator: the port has no valid GID");
  if (wire::mtu_octets(config.mtu) == 0)
    return fail(Errc::kInvalidArgument, "invalid subnet MTU code {}", config.mtu);
  if (wire::rate_mbps(config.rate) == 0)
    return fail(Errc::kInvalidArgument, "invalid subnet rate code {}", config.rate);
  if (config.sl > 15 || config.lifetime > 0x3f)
    return fail(Errc::kInvalidArgument, "subnet SL {} or packet lifetime {} out of range",
                config.sl, config.lifetime);
  if (config.scope == 0 || config.scope > 14)
    return fail(Errc::kInvalidArgument, "invalid multicast scope {}, allowed: 1-14", config.scope);
  if (config.partitions.empty() || config.partitions.size() > config.max_groups)
    return fail(Errc::kInvalidArgument, "invalid number of partitions {}, allowed: 1-{}",
                config.partitions.size(), config.max_groups);
  for (const Partition& p : config.partitions)
    if (partition_of(p.pkey) == 0)
      return fail(Errc::kInvalidArgument, "invalid P_Key 0x{:04x}", p.pkey);
  return Administrator{config};
}

Administrator::Administrator(const AdministratorConfig& config)
    : subnet_{config},
      tables_{config.tables},
      reporter_{config.reports},
      smps_{config.smps},
      log_limit_{kLogInterval, kLogBurst} {
  subnet_.ports.add_own(config.gid, config.lid);
  for (const Partition& p : config.partitions) subnet_.ports.add_partition(config.gid, p.pkey);
  create_broadcast_groups(subnet_);
  static_cast<void>(subnet_.groups.take_events());
}

/// A port is known by its base LID, from whichever of its LIDs it asks.
std::optional<SaMad> Administrator::answer(const fabric::MadAddress& sender,
                                           std::span<const std::byte> bytes, TimePoint now) {
  ++counters_.received;
  const auto count = [](std::uint64_t& counter) {
    ++counter;
    return std::nullopt;
  };
  if (bytes.size() != wire::kMadLen) return count(counters_.ignored_length);
  const SaMad request = *wire::read<SaMad>(bytes);
  const wire::MadHdr& hdr = request.hdr.mad;
  if (hdr.mgmt_class != static_cast<std::uint8_t>(wire::MgmtClass::kSubnAdm))
    return count(counters_.ignored_class);
  if (!wire::is_unicast_lid(sender.lid)) return count(counters_.ignored_source);
  fabric::MadAddress from = sender;
  from.lid = subnet_.ports.base_of(sender.lid);
  if (hdr.method == static_cast<std::uint8_t>(Method::kReportResp))
    return count(reporter_.acknowledge(from, hdr.tid.host(), now) ? counters_.reports_acknowledged
                                                                  : counters_.ignored_report);
  if (!asks(hdr.method)) return count(counters_.ignored_no_request);
  // The receiver of a table in RMPP acknowledges it with the method of its request.
  if ((request.hdr.rmpp_rtime_flags & wire::rmpp_flag::kActive) != 0) {
    const bool taken = is_table(request) && take_acknowledgement(from, request, now);
    return count(taken ? counters_.rmpp_taken : counters_.ignored_rmpp);
  }
  if (is_table(request)) {
    if (const auto under_way = tables_.under_way(from, request); under_way.found) {
      if (!under_way.first) return count(counters_.ignored_repeated);
      ++counters_.answered;
      return under_way.first;
    }
  }
  auto reply = answer_request(from, request, now);
  report_events(now);
  return reply;
}

bool Administrator::take_acknowledgement(const fabric::MadAddress& from, const SaMad& mad,
                                         TimePoint now) {
  const auto find = [this, now](const fabric::MadAddress& to,
                                const SaMad& request) -> std::optional<std::vector<std::byte>> {
    auto records = serve(subnet_, request, to, now);
    if (!records) return std::nullopt;
    return std::move(records->bytes);
  };
  const bool taken = tables_.take(from, mad, now, find);
  report_events(now);
  return taken;
}

std::optional<SaMad> Administrator::answer_request(const fabric::MadAddress& from,
                                                   const SaMad& request, TimePoint now) {
  auto records = serve(subnet_, request, from, now);
  std::optional<SaMad> reply;
  if (records) {
    reply = with_records(request, *records);
    if (is_table(request))
      reply = tables_.start(from, request, reply->hdr, std::move(records->bytes), now);
  }
  if (reply) {
    ++counters_.answered;
    return reply;
  }
  const auto status = static_cast<std::uint16_t>(records ? MadStatus::kBusy : records.error());
  ++counters_.refused[status];
  reply = reply_to(request);
  reply->hdr.mad.status.set(status);
  return reply;
}

void Administrator::overhear(const wire::Gid& port, std::uint16_t lid, std::uint16_t pkey,
                             TimePoint now) {
  const bool local = port.prefix() == subnet_.config.gid.prefix() && !port.is_multicast();
  if (!local || port.guid() == 0 || !wire::is_unicast_lid(lid)) return;
  if (!subnet_.ports.hear(port, lid, now)) return;
  subnet_.ports.add_partition(port, pkey);
  report_events(now);
}

/// Reports the changes of the latest request to subscribers.
void Administrator::report_events(TimePoint now) {
  const auto notice = [this](wire::Trap trap, const wire::Gid& gid) {
    return wire::make_notice(trap, gid, subnet_.config.lid, subnet_.config.gid);
  };
  for (const PortChange& e : subnet_.ports.take_events()) {
    if (e.kind == PortChange::Kind::kMtuInDoubt) {
      look_at(e.gid, now);
      continue;
    }
    const bool in = e.kind == PortChange::Kind::kInService;
    if (!in) {  // The next port with this LID has not subscribed.
      subnet_.subscriptions.drop_port(e.lid);
      reporter_.forget_port(e.lid);
      smps_.forget(e.lid);
    }
    if (e.kind != PortChange::Kind::kOutOfService) look_at(e.gid, now);
    if (e.kind == PortChange::Kind::kMoved) continue;
    report(notice(in ? wire::Trap::kGidInService : wire::Trap::kGidOutOfService, e.gid),
           std::nullopt, now);
  }
  for (const GroupEvent& e : subnet_.groups.take_events())
    report(notice(e.created ? wire::Trap::kGroupCreated : wire::Trap::kGroupDeleted, e.mgid),
           e.pkey, now);
}

/// Sends a notice to its subscribers; with a `pkey` that is not the default one, only to those
/// known in its partition.
void Administrator::report(const wire::Notice& notice, std::optional<std::uint16_t> pkey,
                           TimePoint now) {
  for (const auto& [subscriber, subscriptions] : subnet_.subscriptions.all()) {
    if (!SubscriptionTable::wants(subscriptions, notice)) continue;
    const Port* port = subnet_.ports.at(subscriber.lid);
    const bool may_know =
        !pkey || partition_of(*pkey) == partition_of(wire::kDefaultPkey) ||
        (port != nullptr && (port->own || port->partitions.count(partition_of(*pkey)) != 0));
    if (may_know) reporter_.post(subscriber, subscriptions.to, notice, now);
  }
}

/// Reads the PortInfo of a port that has become known, or has moved.
void Administrator::look_at(const wire::Gid& gid, TimePoint now) {
  const Port* port = subnet_.ports.find(gid);
  if (!subnet_.config.manages_ports || port == nullptr) return;
  smps_.post(port->lid, port_info_request(), now);
}

bool Administrator::on_smp(const fabric::ReceivedMad& mad, TimePoint now) {
  const auto smp = *wire::read<wire::Smp>(mad.bytes);
  const auto method = smps_.take(mad.from.lid, smp, now);
  if (!method) return false;
  const Port* port = subnet_.ports.at(mad.from.lid);
  if (port == nullptr) return true;
  if (smp.mad.status.host() != 0)
    log_unregistered(port->lid, "it refuses subnet management", now);
  else if (*method == Method::kGet)
    on_port_info(*port, *wire::read<wire::PortInfo>(smp.data), now);
  else if (log_limit_.allow(now))
    log(LogArea::kSa, LogLevel::kNotice, "port {} at LID {} was requested to register again",
        wire::to_string(port->gid), port->lid);
  return true;
}

void Administrator::on_port_info(const Port& port, const wire::PortInfo& info, TimePoint now) {
  const bool registered = subnet_.groups.is_member_somewhere(port.gid);
  const std::uint8_t known = port.mtu;
  const bool removed = take_mtu(port, info.neighbor_mtu(), now);
  // A port that is read again, and is the same, has registered in vain.
  const bool same = known != 0 && known == info.neighbor_mtu();
  if (!removed && (registered || same)) return;
  if (subnet_.ports.base_of(info.sm_lid.host()) != subnet_.config.lid)
    return log_unregistered(port.lid, "it has another subnet manager", now);
  if ((info.capability_mask.host() & wire::kReregistrationSupported) == 0)
    return log_unregistered(port.lid, "it does not take requests for reregistration", now);
  smps_.post(port.lid, reregister_request(info), now);
}

/// Takes the MTU of a port, which may have joined groups of a larger one. True if it was removed from
/// some.
bool Administrator::take_mtu(const Port& port, std::uint8_t mtu, TimePoint now) {
  if (wire::mtu_octets(mtu) == 0) return false;
  subnet_.ports.set_mtu(port.gid, mtu);
  const std::size_t left = subnet_.groups.remove_from_larger(port.gid, mtu);
  if (left != 0 && log_limit_.allow(now))
    log(LogArea::kSa, LogLevel::kNotice,
        "port {} at LID {} has MTU {}; removed from {} groups of a larger one",
        wire::to_string(port.gid), port.lid, wire::mtu_octets(mtu), left);
  report_events(now);
  return left != 0;
}

/// Logs that a port in no group is left to itself.
void Administrator::log_unregistered(std::uint16_t lid, std::string_view reason, TimePoint now) {
  const Port* port = subnet_.ports.at(lid);
  if (port == nullptr || subnet_.groups.is_member_somewhere(port->gid)) return;
  if (!log_limit_.allow(now)) return;
  log(LogArea::kSa, LogLevel::kNotice,
      "port {} at LID {} is in no group, and {}: waiting until it registers by itself",
      wire::to_string(port->gid), lid, reason);
}

void Administrator::tick(TimePoint now, const MadSender& send) {
  tables_.tick(now, send);
  for (const Subscriber& dead : reporter_.tick(now, send)) subnet_.subscriptions.drop(dead);
  for (const std::uint16_t lid : smps_.tick(now, send))
    log_unregistered(lid, "it does not answer subnet management", now);
}

std::optional<TimePoint> Administrator::next_deadline() const {
  return earlier(earlier(tables_.next_deadline(), reporter_.next_deadline()),
                 smps_.next_deadline());
}

std::uint64_t AdministratorCounters::ended() const {
  std::uint64_t n = answered + rmpp_taken + reports_acknowledged + ignored_length + ignored_class +
                    ignored_source + ignored_no_request + ignored_rmpp + ignored_report +
                    ignored_repeated;
  for (const auto& [status, times] : refused) n += times;
  return n;
}

}  // namespace ipoib::sa
