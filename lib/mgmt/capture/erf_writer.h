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

/// Records collect in memory until flush(). The C library writes nothing of them at the end of the
/// process, where a file that does not answer would keep the process.
class ErfWriter final : public FrameFile {
 public:
  /// Creates a regular file that only the owner may read. kExists: `path` exists and `replace` is
  /// not given. A regular file is replaced in one step, when the new one has its header. kRefused:
  /// the file cannot be created, or `path` is a link, a pipe or a device. kNoResources: the disk
  /// does not accept the header. After an error `path` is as it was.
  static Result<std::unique_ptr<ErfWriter>> open(const std::string& path, bool replace);
  ~ErfWriter() override;
  ErfWriter(const ErfWriter&) = delete;
  ErfWriter& operator=(const ErfWriter&) = delete;

  /// kInvalidArgument: the frame is too long for an ERF record.
  Status append(std::span<const std::byte> frame, std::uint64_t unix_ns) override;
  /// kNoResources: the disk accepts no more data.
  Status flush() override;
  Status close() override;
  [[nodiscard]] std::uint64_t size() const override { return written_ + unwritten_.size(); }
  [[nodiscard]] std::size_t unwritten() const override { return unwritten_.size(); }

 private:
  struct PcapClose {
    void operator()(pcap* p) const;
  };
  struct DumpClose {
    void operator()(pcap_dumper* d) const;
  };
  ErfWriter(std::string path, int fd) : path_{std::move(path)}, fd_{fd} {}
  Status begin();
  Status failed(const char* what);

  std::string path_;
  int fd_;
  std::vector<std::byte> unwritten_;  ///< libpcap writes here.
  std::uint64_t written_ = 0;         ///< Octets in the file.
  std::unique_ptr<pcap, PcapClose> handle_;
  std::unique_ptr<pcap_dumper, DumpClose> dumper_;
  std::vector<std::byte> record_;
};

}  // namespace ipoib::mgmt
