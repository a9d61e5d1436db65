// The embedded subnet administrator: answers SA MADs for a software fabric that has no subnet
// manager. A state machine: fed with MADs and the time, it returns the MADs to send back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/fabric/types.h"
#include "lib/sa/embedded/subnet.h"
#include "lib/wire/mad.h"

namespace ipoib::sa {

/// MADs fed, by outcome: received == answered + the sum of refused + ignored_*.
struct AdministratorCounters {
  std::uint64_t received = 0;
  std::uint64_t answered = 0;
  std::map<std::uint16_t, std::uint64_t> refused;  ///< By MAD status of the answer.
  std::uint64_t ignored_length = 0;                ///< Not 256 octets.
  std::uint64_t ignored_class = 0;                 ///< Not subnet administration.
  std::uint64_t ignored_source = 0;                ///< Source LID that cannot be answered.
  std::uint64_t ignored_no_request = 0;            ///< An answer, or a method that has none.
  std::uint64_t ignored_rmpp = 0;                  ///< RMPP ACK, STOP, ABORT or segmented request.
};

/// Management lcore only.
///
/// It learns ports from requests (ports.h) and keeps what it is told until it ends: there is no
/// sweep that notices a port gone. Tables travel in one RMPP segment; one that does not fit (more
/// than 3 records) is refused with kSaNoResources. Subscriptions are not offered.
class Administrator {
 public:
  /// kInvalidArgument names what is wrong with the configuration.
  [[nodiscard]] static Result<Administrator> create(const AdministratorConfig& config);

  /// Takes one MAD from QP1 and returns the answer, to be sent where it came from; none for what is
  /// not a request. A refusal carries the request's record and one of MadStatus:
  ///   kBadVersion                   base or class version;
  ///   kMethodNotSupported           no method of subnet administration served here;
  ///   kMethodAttributeNotSupported  unknown attribute, or not with this method;
  ///   kSaDenied                     an SM_Key that is neither 0 nor the right one;
  ///   kSaNoRecords, kSaTooManyRecords  Get found none, or more than one;
  ///   and those of join, leave, find_paths.
  [[nodiscard]] std::optional<wire::SaMad> answer(const fabric::MadAddress& from,
                                                  std::span<const std::byte> mad, TimePoint now);
  [[nodiscard]] std::optional<wire::SaMad> answer(const fabric::ReceivedMad& mad, TimePoint now) {
    return answer(mad.from, mad.bytes, now);
  }

  [[nodiscard]] const AdministratorConfig& config() const { return subnet_.config; }
  [[nodiscard]] const AdministratorCounters& counters() const { return counters_; }
  /// For `show sa`: groups with their members, ports as learned.
  [[nodiscard]] const std::map<wire::Gid, Group>& groups() const { return subnet_.groups.all(); }
  [[nodiscard]] const std::map<wire::Gid, Port>& ports() const { return subnet_.ports.all(); }

 private:
  explicit Administrator(const AdministratorConfig& config);

  Subnet subnet_;
  AdministratorCounters counters_;
};

}  // namespace ipoib::sa
