// SPDX-License-Identifier: BSD-3-Clause
// The embedded subnet administrator: answers SA MADs for a software fabric that has no subnet
// manager. A state machine: fed with MADs and the time, it returns the MAD to send back, and from
// its tick those that time and windows call for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/fabric/types.h"
#include "lib/sa/client.h"
#include "lib/sa/embedded/subnet.h"
#include "lib/wire/mad.h"

namespace ipoib::sa {

/// MADs fed, by outcome: received == ended().
struct AdministratorCounters {
  std::uint64_t received = 0;
  std::uint64_t answered = 0;                      ///< Of a table: its first segment.
  std::uint64_t rmpp_taken = 0;                    ///< ACK, STOP or ABORT of a table under way.
  std::uint64_t reports_acknowledged = 0;          ///< ReportResp.
  std::map<std::uint16_t, std::uint64_t> refused;  ///< By MAD status of the answer.
  std::uint64_t ignored_length = 0;                ///< Not 256 octets.
  std::uint64_t ignored_class = 0;                 ///< Not subnet administration.
  std::uint64_t ignored_source = 0;                ///< Source LID that cannot be answered.
  std::uint64_t ignored_no_request = 0;            ///< An answer, or a method that has none.
  std::uint64_t ignored_rmpp = 0;      ///< RMPP of no table under way, or a segmented request.
  std::uint64_t ignored_report = 0;    ///< A ReportResp to nothing said, or said often enough.
  std::uint64_t ignored_repeated = 0;  ///< A table asked for again while it is on its way.

  [[nodiscard]] std::uint64_t ended() const;
};

/// Management lcore only.
///
/// It learns ports from requests (ports.h) and keeps what it is told until it ends: there is no
/// sweep that notices a port gone, only one that takes its LID. Tables travel in RMPP segments
/// (table_sender.h). Subscribers are told of groups created and deleted (traps 66, 67) and of ports
/// learned and lost (64, 65); of groups those only whose port is known in the group's partition, of
/// ports everybody: their MADs travel in the default partition, which all share. A subscription
/// ends with an unsubscription, when its LID has another port, or when Reports are not
/// acknowledged.
class Administrator {
 public:
  /// kInvalidArgument names what is wrong with the configuration.
  [[nodiscard]] static Result<Administrator> create(const AdministratorConfig& config);

  /// Takes one MAD from QP1 and returns the answer, to be sent where it came from; none for what is
  /// not a request. A table's answer is its first segment. A refusal carries the request's record
  /// and one of MadStatus:
  ///   kBadVersion                   base or class version;
  ///   kMethodNotSupported           no method of subnet administration served here;
  ///   kMethodAttributeNotSupported  unknown attribute, or not with this method;
  ///   kSaDenied                     an SM_Key that is neither 0 nor the right one;
  ///   kSaNoRecords, kSaTooManyRecords  Get found none, or more than one;
  ///   kSaNoResources                a table of more than max_answer_octets;
  ///   kBusy                         too many tables under way: ask again;
  ///   and those of join, leave, find_paths, set_inform_info.
  [[nodiscard]] std::optional<wire::SaMad> answer(const fabric::MadAddress& from,
                                                  std::span<const std::byte> mad, TimePoint now);
  [[nodiscard]] std::optional<wire::SaMad> answer(const fabric::ReceivedMad& mad, TimePoint now) {
    return answer(mad.from, mad.bytes, now);
  }

  /// Sends what is due: segments of tables, Reports, resends. `send` must not feed answers back
  /// before it returns.
  void tick(TimePoint now, const MadSender& send);
  /// When tick() has work: at once (the latest time told) while there is something to send.
  [[nodiscard]] std::optional<TimePoint> next_deadline() const;

  [[nodiscard]] const AdministratorConfig& config() const { return subnet_.config; }
  [[nodiscard]] const AdministratorCounters& counters() const { return counters_; }
  [[nodiscard]] const TableSender& tables() const { return tables_; }
  [[nodiscard]] const Reporter& reporter() const { return reporter_; }
  [[nodiscard]] const SubscriptionTable& subscriptions() const { return subnet_.subscriptions; }
  /// For `show sa`: groups with their members, ports as learned.
  [[nodiscard]] const std::map<wire::Gid, Group>& groups() const { return subnet_.groups.all(); }
  [[nodiscard]] const std::map<wire::Gid, Port>& ports() const { return subnet_.ports.all(); }

 private:
  explicit Administrator(const AdministratorConfig& config);

  [[nodiscard]] std::optional<wire::SaMad> answer_request(const fabric::MadAddress& from,
                                                          const wire::SaMad& request,
                                                          TimePoint now);
  void report_events(TimePoint now);
  void report(const wire::Notice& notice, std::optional<std::uint16_t> pkey, TimePoint now);

  Subnet subnet_;
  TableSender tables_;
  Reporter reporter_;
  AdministratorCounters counters_;
};

}  // namespace ipoib::sa
