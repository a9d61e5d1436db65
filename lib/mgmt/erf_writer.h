// Capture files that Wireshark and tshark open as InfiniBand: pcap of link type ERF, records of
// ERF type 21 (from LRH, VCRC appended).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lib/base/result.h"

struct pcap;
struct pcap_dumper;

namespace ipoib::mgmt {

class ErfWriter {
 public:
  /// Makes the file, replacing one that is there.
  static Result<ErfWriter> open(const std::string& path);

  /// `frame`: LRH through ICRC. `unix_ns`: nanoseconds since 1970.
  /// kInvalidArgument: longer than an ERF record can say; kNoResources: the disk took no more.
  Status write(std::span<const std::byte> frame, std::uint64_t unix_ns);

 private:
  struct PcapClose {
    void operator()(pcap* p) const;
  };
  struct DumpClose {
    void operator()(pcap_dumper* d) const;
  };
  ErfWriter(std::string path, pcap* handle, pcap_dumper* dumper);

  std::string path_;
  std::unique_ptr<pcap, PcapClose> handle_;
  std::unique_ptr<pcap_dumper, DumpClose> dumper_;
  std::vector<std::byte> record_;
};

}  // namespace ipoib::mgmt
