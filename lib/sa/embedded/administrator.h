// SPDX-License-Identifier: BSD-3-Clause
// The embedded subnet administrator: answers SA MADs for a software fabric without a subnet
// manager. A state machine: it is fed with MADs and the time and returns the answers to send; its
// tick sends the MADs that are due by time or window.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string_view>

#include "lib/base/clock.h"
#include "lib/base/rate_limiter.h"
#include "lib/base/result.h"
#include "lib/fabric/qp1.h"
#include "lib/sa/client.h"
#include "lib/sa/embedded/subnet.h"
#include "lib/wire/sa_records.h"

namespace ipoib::sa {

/// Received MADs by outcome: received == ended().
struct AdministratorCounters {
  std::uint64_t received = 0;
  std::uint64_t answered = 0;                      ///< For a table: its first segment.
  std::uint64_t rmpp_taken = 0;                    ///< ACK, STOP or ABORT for a table in progress.
  std::uint64_t reports_acknowledged = 0;          ///< ReportResp.
  std::map<std::uint16_t, std::uint64_t> refused;  ///< Key: MAD status of the answer.
  std::uint64_t ignored_length = 0;                ///< Not 256 octets.
  std::uint64_t ignored_class = 0;                 ///< Not subnet administration.
  std::uint64_t ignored_source = 0;                ///< Source LID not unicast: cannot be answered.
  std::uint64_t ignored_no_request = 0;            ///< An answer, or a method without answers.
  std::uint64_t ignored_rmpp = 0;      ///< RMPP for no table in progress, or a segmented request.
  std::uint64_t ignored_report = 0;    ///< A ReportResp to no Report in flight.
  std::uint64_t ignored_repeated = 0;  ///< A repeated request for a table in progress.

  [[nodiscard]] std::uint64_t ended() const;
};

/// Management lcore only.
///
/// It learns ports from requests (ports.h) and keeps them: no sweep detects an absent port, and a
/// port is lost only when another one takes its LID. Tables are sent in RMPP segments
/// (table_sender.h). Subscribers get Reports of created and deleted groups (traps 66, 67) and of
/// learned and lost ports (64, 65). Reports of a group go only to ports known in its partition, and
/// those of the default partition and of ports to all subscribers, because their MADs travel in the
/// default partition, which all ports share. A subscription ends with an unsubscription, when its
/// port loses the LID, or when Reports are not acknowledged.
///
/// If the administrator manages ports, it knows their MTU soon after they become known or move. A port is
/// then in no group of a larger MTU, and has no path of one. A port that is removed from its groups for
/// this is requested to register again, so that it learns of it by a refusal. A refused port is read
/// again, because its MTU may have been raised. If ports are addressed by GID, each has its own
/// administrator, which no other port asks and which reads no other port: it knows one MTU, its port's.
///
/// A port that becomes known and is in no group has registered with an administrator that has lost its
/// state: this one's predecessor. If the administrator manages ports, it then acts as their subnet
/// manager and requests client reregistration (IBA vol 1 §14.2.5.6). Ports that do not answer SMPs, or
/// do not take such a request, register when they notice the loss by themselves.
class Administrator {
 public:
  /// kInvalidArgument names the error in the configuration.
  [[nodiscard]] static Result<Administrator> create(const AdministratorConfig& config);

  /// Takes one MAD from QP1 and returns the answer, which the caller must send to its source; none
  /// if the MAD is not a request. The answer with a table is its first segment. A refusal carries
  /// the request's record and one of MadStatus:
  ///   kBadVersion                   base or class version;
  ///   kMethodNotSupported           a method that is not served here;
  ///   kMethodAttributeNotSupported  unknown attribute, or not served with this method;
  ///   kSaDenied                     an SM_Key that is neither 0 nor the configured one;
  ///   kSaNoRecords, kSaTooManyRecords  Get found none, or more than one;
  ///   kSaNoResources                a table of more than max_answer_octets;
  ///   kBusy                         too many tables in progress: retry;
  ///   and those of join, leave, find, find_paths, set_inform_info.
  [[nodiscard]] std::optional<wire::SaMad> answer(const fabric::MadAddress& from,
                                                  std::span<const std::byte> mad, TimePoint now);
  [[nodiscard]] std::optional<wire::SaMad> answer(const fabric::ReceivedMad& mad, TimePoint now) {
    return answer(mad.from, mad.bytes, now);
  }

  /// A port was heard in a partition, in a message of address resolution. An administrator that
  /// starts again learns by it of hosts that do not know of its start, and thus do not register.
  void overhear(const wire::Gid& port, std::uint16_t lid, std::uint16_t pkey, TimePoint now);

  /// Takes the MTU code of the administrator's own port, to which it sends no SMPs. It limits the paths
  /// of the port. Joins of the port are not refused for it, because the node that asks knows it as
  /// well, and gives the MTU as its reason.
  void set_port_mtu(std::uint8_t mtu) { subnet_.ports.set_mtu(subnet_.config.gid, mtu); }

  /// Takes an SMP. False: it is not the answer to one of the administrator's own requests.
  [[nodiscard]] bool on_smp(const fabric::ReceivedMad& mad, TimePoint now);

  /// Sends the MADs that are due: segments of tables, Reports, SMPs, retransmissions. `send` must not
  /// call answer() or on_smp() before it returns.
  void tick(TimePoint now, const MadSender& send);
  /// The time at which tick() has work: the latest `now` passed in, so at once, while MADs wait.
  [[nodiscard]] std::optional<TimePoint> next_deadline() const;

  [[nodiscard]] const AdministratorConfig& config() const { return subnet_.config; }
  [[nodiscard]] const AdministratorCounters& counters() const { return counters_; }
  [[nodiscard]] const TableSender& tables() const { return tables_; }
  [[nodiscard]] const Reporter& reporter() const { return reporter_; }
  [[nodiscard]] const SmpRequester& smps() const { return smps_; }
  [[nodiscard]] const SubscriptionTable& subscriptions() const { return subnet_.subscriptions; }
  /// For `show sa`: groups with their members, and learned ports.
  [[nodiscard]] const std::map<wire::Gid, McGroup>& groups() const { return subnet_.groups.all(); }
  [[nodiscard]] const std::map<wire::Gid, Port>& ports() const { return subnet_.ports.all(); }

 private:
  explicit Administrator(const AdministratorConfig& config);

  [[nodiscard]] std::optional<wire::SaMad> answer_request(const fabric::MadAddress& from,
                                                          const wire::SaMad& request,
                                                          TimePoint now);
  [[nodiscard]] bool take_acknowledgement(const fabric::MadAddress& from, const wire::SaMad& mad,
                                          TimePoint now);
  void report_events(TimePoint now);
  void report(const wire::Notice& notice, std::optional<std::uint16_t> pkey, TimePoint now);
  void look_at(const wire::Gid& port, TimePoint now);
  void on_port_info(const Port& port, const wire::PortInfo& info, TimePoint now);
  bool take_mtu(const Port& port, std::uint8_t mtu, TimePoint now);
  void log_unregistered(std::uint16_t lid, std::string_view reason, TimePoint now);

  Subnet subnet_;
  TableSender tables_;
  Reporter reporter_;
  SmpRequester smps_;
  RateLimiter log_limit_;
  AdministratorCounters counters_;
};

}  // namespace ipoib::sa
