// SPDX-License-Identifier: BSD-3-Clause
// Service ID resolution (SIDR): finds the queue pair that serves a service by datagrams. Requests
// are retransmitted until they are answered. Answering keeps no state, so a repeated request gets
// the same answer. Source: IBA vol 1 §12.11; iba-wire.md §5.6.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/id_source.h"
#include "lib/base/result.h"
#include "lib/cm/manager_types.h"
#include "lib/fabric/qp1.h"
#include "lib/wire/cm_mads.h"

namespace ipoib::cm {

struct SidrQuestion {
  fabric::MadAddress to{};
  std::uint64_t service_id = 0;
  Duration timeout = std::chrono::milliseconds(500);  ///< Timeout of one attempt.
  unsigned retries = 4;
  std::vector<std::byte> private_data{};
};
/// The answer, with any status; or kTimedOut, kUnavailable (shut down).
using SidrHandler = std::function<void(const tl::expected<wire::CmSidrRep, Errc>&, TimePoint now)>;
using SidrId = std::uint32_t;

/// Makes the answer: status, QPN, Q_Key, additional information and private data count.
using SidrService =
    std::function<wire::CmSidrRep(const wire::CmSidrReq&, const fabric::MadAddress& from)>;

/// Part of the manager, which sends its MADs and owns the counters.
class Sidr {
 public:
  using Send = std::function<void(const fabric::MadAddress&, const wire::CmMad&, bool repeated)>;
  Sidr(Send send, ManagerCounters& counters, unsigned max_outstanding, std::uint64_t seed)
      : send_{std::move(send)},
        counters_{counters},
        max_outstanding_{max_outstanding},
        ids_{seed} {}

  Result<SidrId> ask(const SidrQuestion& question, SidrHandler handler, TimePoint now);
  void cancel(SidrId id) { pending_.erase(id); }
  /// `pkey`: only requests for this partition that came in it are answered by `service`; 0: those of
  /// all partitions that have no service of their own.
  void serve(std::uint64_t service_id, SidrService service, std::uint16_t pkey) {
    services_[key_of(service_id, pkey)] = std::move(service);
  }
  void end_service(std::uint64_t service_id, std::uint16_t pkey) {
    services_.erase(key_of(service_id, pkey));
  }

  /// LMC of the port, for comparisons of ports.
  void set_lmc(std::uint8_t lmc) { lmc_ = lmc; }
  void on_req(const wire::CmMad& mad, const fabric::MadAddress& from);
  /// Takes the answer of the port that was asked, in the partition of the question; others are
  /// counted. Handlers may call ask() and cancel().
  void on_rep(const wire::CmMad& mad, const fabric::MadAddress& from, TimePoint now);
  void tick(TimePoint now);
  void shutdown(TimePoint now);
  [[nodiscard]] std::optional<TimePoint> next_deadline() const;
  [[nodiscard]] std::size_t outstanding() const { return pending_.size(); }

 private:
  struct Pending {
    fabric::MadAddress to;
    wire::CmMad mad;
    SidrHandler handler;
    Duration timeout;
    TimePoint due;
    unsigned retries_left;
  };
  /// Full and limited members of a partition share its services.
  using ServiceKey = std::pair<std::uint64_t, std::uint16_t>;
  [[nodiscard]] static ServiceKey key_of(std::uint64_t service_id, std::uint16_t pkey) {
    return {service_id, static_cast<std::uint16_t>(pkey & ~wire::kFullMemberBit)};
  }
  [[nodiscard]] const SidrService* find_service(const wire::CmSidrReq& req,
                                                const fabric::MadAddress& from) const;
  void finish(SidrId id, const tl::expected<wire::CmSidrRep, Errc>& outcome, TimePoint now);

  Send send_;
  ManagerCounters& counters_;
  unsigned max_outstanding_;
  std::uint8_t lmc_ = 0;
  IdSource ids_;
  std::map<SidrId, Pending> pending_;
  std::map<ServiceKey, SidrService> services_;
};

}  // namespace ipoib::cm
