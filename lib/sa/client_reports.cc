// SPDX-License-Identifier: BSD-3-Clause
// Client: Reports of its subscriptions. Each one is acknowledged, or the SA would repeat it and at
// last drop the subscription. The handler is called once for each.
#include "lib/sa/client.h"

namespace ipoib::sa {

bool Client::on_report(const fabric::ReceivedMad& received, const wire::SaMad& mad, TimePoint now) {
  if (sm_lid_ == 0 || received.from.lid != sm_lid_ || received.from.qpn != 1) {
    ++counters_.reports_foreign;
    return false;
  }
  if (mad.hdr.mad.attr_id.host() != static_cast<std::uint16_t>(wire::Attr::kNotice)) {
    ++counters_.malformed;
    return false;
  }
  ++counters_.reports;
  wire::Notice notice{};
  if (is_news(mad, notice, now) && report_handler_ && !down_) {
    const auto tell = [this, notice](const Outcome&, TimePoint at) {
      const ReportHandler handler = report_handler_;  // It may destroy this client, or be replaced.
      if (handler) handler(notice, at);
    };
    enqueue_outcome(kNoTransaction, tell, Reply{});
  }
  wire::SaMad response = mad;
  response.hdr.mad.method = static_cast<std::uint8_t>(wire::Method::kReportResp);
  response.hdr.mad.status.set(0);
  answer_to(received.from, response);
  deliver(now);
  return true;
}

bool Client::is_news(const wire::SaMad& mad, wire::Notice& notice, TimePoint now) {
  switch (wire::parse_notice(mad.data, notice)) {
    case wire::NoticeError::kNone: break;
    case wire::NoticeError::kVendor: ++counters_.reports_vendor; return false;
    default:
      ++counters_.malformed;
      ++counters_.reports_garbled;
      return false;
  }
  // A restarted SA may reuse transaction IDs, so the key also has the notice. Its reserved octets may
  // be garbage.
  const ReportKey key{mad.hdr.mad.tid.host(), notice.trap_number.host(),
                      notice.data_gid,        notice.issuer_lid.host(),
                      notice.issuer_gid,      notice.toggle_count.host()};
  if (reports_.find(key, now) != nullptr) {
    ++counters_.reports_repeated;
    return false;
  }
  reports_.add(key, true, now);
  return true;
}

}  // namespace ipoib::sa
