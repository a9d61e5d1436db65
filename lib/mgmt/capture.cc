#include "lib/mgmt/capture.h"

#include <rte_cycles.h>
#include <rte_errno.h>
#include <rte_mbuf.h>
#include <rte_ring.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "lib/base/log.h"
#include "lib/fabric/capture.h"

namespace ipoib::mgmt {
namespace {

constexpr unsigned kFrames = 8191;  ///< Waiting to be written, over all HCAs.
constexpr unsigned kRingSize = 4096;
constexpr unsigned kDataRoom = RTE_PKTMBUF_HEADROOM + 4096 + 128;

std::uint64_t unix_ns() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::system_clock::now().time_since_epoch())
                                        .count());
}

std::uint64_t elapsed_ns(std::uint64_t cycles) {
  const std::uint64_t hz = rte_get_tsc_hz();
  return cycles / hz * 1'000'000'000 + cycles % hz * 1'000'000'000 / hz;
}

}  // namespace

Capture::~Capture() {
  static_cast<void>(stop());
}

Status Capture::start(const std::string& path, const std::vector<fabric::Hca*>& hcas) {
  if (writer_) return fail(Errc::kExists, "a capture is running; stop it first");
  auto writer = ErfWriter::open(path);
  if (!writer) return tl::make_unexpected(writer.error());
  pool_ = rte_pktmbuf_pool_create("ipoib_capture", kFrames, 0, 0, kDataRoom, SOCKET_ID_ANY);
  if (pool_ == nullptr)
    return fail(Errc::kNoResources, "no memory for captured frames: {}", rte_strerror(rte_errno));
  tsc_at_start_ = rte_rdtsc();
  unix_ns_at_start_ = unix_ns();
  frames_ = 0;
  for (fabric::Hca* hca : hcas) {
    rte_ring* ring = rte_ring_create(fmt::format("ipoib_capture_{}", rings_.size()).c_str(),
                                     kRingSize, SOCKET_ID_ANY, RING_F_SP_ENQ | RING_F_SC_DEQ);
    if (ring != nullptr) rings_.push_back(ring);
    auto s = ring != nullptr ? hca->set_capture(fabric::CaptureTap{ring, pool_})
                             : fail(Errc::kNoResources, "no memory for the capture ring");
    if (!s) {
      release();
      return s;
    }
    hcas_.push_back(hca);
  }
  writer_.emplace(std::move(*writer));
  return {};
}

void Capture::release() {
  for (fabric::Hca* hca : hcas_) static_cast<void>(hca->set_capture(std::nullopt));
  hcas_.clear();
  for (rte_ring* ring : rings_) {
    void* m = nullptr;
    while (rte_ring_sc_dequeue(ring, &m) == 0) rte_pktmbuf_free(static_cast<rte_mbuf*>(m));
    rte_ring_free(ring);
  }
  rings_.clear();
  rte_mempool_free(pool_);
  pool_ = nullptr;
}

bool Capture::pending() const {
  return std::any_of(rings_.begin(), rings_.end(),
                     [](rte_ring* r) { return rte_ring_empty(r) == 0; });
}

void Capture::write_pending() {
  std::array<void*, 64> frames;
  for (std::size_t i = 0; writer_ && i < rings_.size(); ++i) {
    const unsigned n = rte_ring_sc_dequeue_burst(rings_[i], frames.data(), frames.size(), nullptr);
    Status written;
    for (unsigned k = 0; k < n; ++k) {
      auto* m = static_cast<rte_mbuf*>(frames[k]);
      const auto at =
          unix_ns_at_start_ + elapsed_ns(fabric::capture_meta_of(m).tsc - tsc_at_start_);
      if (written)
        written =
            writer_->write({rte_pktmbuf_mtod(m, const std::byte*), rte_pktmbuf_data_len(m)}, at);
      if (written) ++frames_;
      rte_pktmbuf_free(m);
    }
    if (written) continue;
    log(LogArea::kMgmt, LogLevel::kErr, "capture ends after {} frames: {}", frames_,
        written.error().what);
    release();
    writer_.reset();
  }
}

Result<std::uint64_t> Capture::stop() {
  if (!writer_) return fail(Errc::kUnavailable, "no capture is running");
  for (fabric::Hca* hca : hcas_) static_cast<void>(hca->set_capture(std::nullopt));
  while (writer_ && pending()) write_pending();
  release();
  writer_.reset();
  return frames_;
}

}  // namespace ipoib::mgmt
