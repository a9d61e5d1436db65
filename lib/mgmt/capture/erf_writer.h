// SPDX-License-Identifier: BSD-3-Clause
// Capture files that Wireshark and tshark open as InfiniBand: pcap of link type ERF, records of ERF
// type 21 (from LRH, VCRC appended).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/mgmt/capture/capture_writer.h"

struct pcap;
struct pcap_dumper;

namespace ipoib::mgmt {

class ErfWriter final : public FrameFile {
 public:
  /// Creates the file, or truncates an existing one. kRefused: the file cannot be created, or
  /// `path` is a link, a pipe or a device.
  static Result<ErfWriter> open(const std::string& path);

  /// kInvalidArgument: the frame is too long for an ERF record; kNoResources: the disk accepts no
  /// more data.
  Status write(std::span<const std::byte> frame, std::uint64_t unix_ns) override;
  [[nodiscard]] std::uint64_t size() const override { return size_; }

 private:
  struct PcapClose {
    void operator()(pcap* p) const;
  };
  struct DumpClose {
    void operator()(pcap_dumper* d) const;
  };
  static constexpr std::uint64_t kFileHeader = 24, kPacketHeader = 16;
  ErfWriter(std::string path, pcap* handle, pcap_dumper* dumper);

  std::string path_;
  std::unique_ptr<pcap, PcapClose> handle_;
  std::unique_ptr<pcap_dumper, DumpClose> dumper_;
  std::vector<std::byte> record_;
  std::uint64_t size_ = kFileHeader;
};

}  // namespace ipoib::mgmt
