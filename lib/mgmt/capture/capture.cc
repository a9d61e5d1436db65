// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/capture/capture.h"

#include <memory>
#include <utility>

#include "lib/base/contract.h"
#include "lib/base/log.h"
#include "lib/mgmt/capture/erf_writer.h"

namespace ipoib::mgmt {
namespace {

using Stage = CaptureWriter::Stage;

/// Time limit for the writer's thread to leave EAL's memory at the end of the node.
constexpr std::chrono::milliseconds kMemoryPatience{1000};

}  // namespace

Capture::Capture()
    : Capture{[](const CaptureRequest& request) -> Result<FrameFilePtr> {
        return ErfWriter::open(request.file, request.replace);
      }} {}

Capture::~Capture() {
  end(std::chrono::milliseconds{0});
}

Status Capture::start(const CaptureRequest& request, std::vector<fabric::WireCapture*> wires) {
  expects_management();
  follow();
  if (writer_)
    return fail(Errc::kExists, "{}",
                ending_ ? "the file of the last capture is still being completed"
                        : "a capture is already running; stop it first");
  auto writer = CaptureWriter::start({.open = [open = open_, request] { return open(request); },
                                      .taps = wires.size(),
                                      .max_octets = request.max_octets,
                                      .max_frames = request.max_frames});
  if (!writer) return tl::make_unexpected(writer.error());
  last_ = {};
  last_.file = request.file;
  last_.max_octets = request.max_octets;
  last_.max_frames = request.max_frames;
  wires_ = std::move(wires);
  lost_before_ = lost_at_taps();
  ending_ = stopped_ = false;
  writer_.emplace(std::move(*writer));
  static_cast<void>(writer_->wait(Stage::kPreparing, kOpenPatience));
  const auto fault = writer_->fault();
  if (!fault) return {};
  follow();
  return tl::make_unexpected(*fault);
}

std::uint64_t Capture::lost_at_taps() const {
  std::uint64_t sum = 0;
  for (const fabric::WireCapture* wire : wires_) sum += wire->capture_lost();
  return sum;
}

void Capture::set_taps() {
  const auto taps = writer_->taps();
  for (std::size_t i = 0; i < wires_.size(); ++i) wires_[i]->set_capture(taps[i]);
  tapped_ = true;
}

void Capture::take_taps_off() {
  if (!std::exchange(tapped_, false)) return;
  for (fabric::WireCapture* wire : wires_) wire->set_capture(std::nullopt);
}

void Capture::begin_to_end() {
  take_taps_off();
  writer_->end();
  ending_ = true;
}

void Capture::follow() {
  expects_management();
  if (!writer_) return;
  const Stage stage = writer_->stage();
  if (stage == Stage::kWriting && !ending_ && !tapped_) set_taps();
  if (stage == Stage::kClosed && !ending_) begin_to_end();
  if (stage != Stage::kOver) return;
  last_ = info();
  if (!stopped_ || last_.state == CaptureState::kFailed)
    log(LogArea::kMgmt, LogLevel::kWarning, "capture to {} ended after {} frames{}{}", last_.file,
        last_.frames, last_.reason.empty() ? "" : ": ", last_.reason);
  writer_.reset();
  wires_.clear();
}

CaptureState Capture::state() const {
  const Stage stage = writer_->stage();
  if (stage == Stage::kOver) return writer_->fault() ? CaptureState::kFailed : CaptureState::kDone;
  if (ending_ || stage == Stage::kClosed) return CaptureState::kEnding;
  return tapped_ ? CaptureState::kRunning : CaptureState::kStarting;
}

CaptureInfo Capture::info() const {
  expects_management();
  CaptureInfo info = last_;
  if (!writer_) return info;
  info.state = state();
  info.frames = writer_->frames();
  info.octets = writer_->octets();
  info.lost = lost_at_taps() - lost_before_ + writer_->lost();
  info.reason = writer_->reason();
  return info;
}

bool Capture::in_transition() const {
  if (!writer_) return false;
  return state() != CaptureState::kRunning;
}

Result<CaptureInfo> Capture::stop() {
  expects_management();
  follow();
  if (!writer_) return fail(Errc::kUnavailable, "no capture is running");
  stopped_ = true;
  if (!ending_) begin_to_end();
  return info();
}

void Capture::end(std::chrono::milliseconds at_most) {
  if (!writer_) return;
  static_cast<void>(stop());
  if (!writer_) return;
  if (!writer_->wait(Stage::kOver, at_most)) {
    log(LogArea::kMgmt, LogLevel::kWarning,
        "the capture file {} is slow: it ends after {} frames and may be incomplete", last_.file,
        writer_->frames());
    static_cast<void>(writer_->abandon(kMemoryPatience));
  }
  follow();
}

}  // namespace ipoib::mgmt
