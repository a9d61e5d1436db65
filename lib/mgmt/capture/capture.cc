// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/capture/capture.h"

#include <chrono>
#include <memory>
#include <utility>

#include "lib/base/contract.h"
#include "lib/base/log.h"
#include "lib/mgmt/capture/erf_writer.h"

namespace ipoib::mgmt {
namespace {

/// Longest time that the management lcore waits for a file. It is ample for writing all queued
/// frames to a working disk.
constexpr std::chrono::milliseconds kPatience{1000};

}  // namespace

Capture::~Capture() {
  static_cast<void>(stop());
}

Status Capture::start(const std::string& path, std::uint64_t limit,
                      const std::vector<fabric::Hca*>& hcas) {
  expects_management();
  follow();
  if (writer_) return fail(Errc::kExists, "a capture is already running; stop it first");
  auto file = ErfWriter::open(path);
  if (!file) return tl::make_unexpected(file.error());
  auto writer = CaptureWriter::create();
  if (!writer) return tl::make_unexpected(writer.error());
  Status ready;
  for (const fabric::Hca* hca : hcas) {
    fabric::WireCapture* const wire = hca->wire_capture();
    if (wire == nullptr) {
      ready = fail(Errc::kRefused, "{} does not support packet capture", hca->name());
      break;
    }
    const auto tap = writer->add_tap();
    if (!tap) {
      ready = tl::make_unexpected(tap.error());
      break;
    }
    wire->set_capture(*tap);
    wires_.push_back(wire);
  }
  if (ready) ready = writer->start(std::make_unique<ErfWriter>(std::move(*file)), limit);
  if (!ready) {
    take_taps_off();
    return ready;
  }
  writer_.emplace(std::move(*writer));
  return {};
}

void Capture::take_taps_off() {
  for (fabric::WireCapture* wire : wires_) wire->set_capture(std::nullopt);
  wires_.clear();
}

void Capture::follow() {
  expects_management();
  if (!writer_ || !writer_->is_over()) return;
  take_taps_off();
  log(LogArea::kMgmt, LogLevel::kWarning, "capture ended after {} frames{}{}", writer_->frames(),
      writer_->reason().empty() ? "" : ": ", writer_->reason());
  writer_.reset();
}

Result<std::uint64_t> Capture::stop() {
  expects_management();
  if (!writer_) return fail(Errc::kUnavailable, "no capture is running");
  take_taps_off();
  writer_->end();
  if (!writer_->wait(kPatience))
    return fail(Errc::kUnavailable,
                "the capture file is slow: {} frames are written so far, the rest is written in "
                "the background",
                writer_->frames());
  const std::uint64_t frames = writer_->frames();
  writer_.reset();
  return frames;
}

}  // namespace ipoib::mgmt
