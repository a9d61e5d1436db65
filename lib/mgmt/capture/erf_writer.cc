// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/capture/erf_writer.h"

#include <fcntl.h>
#include <pcap/pcap.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "lib/wire/be.h"
#include "lib/wire/icrc/icrc.h"

namespace ipoib::mgmt {
namespace {

constexpr int kLinkTypeErf = 197;
constexpr std::uint8_t kErfInfiniband = 21;
constexpr std::uint8_t kVaryingLength = 0x04;
constexpr int kSnapLen = 65535;

/// ERF record header. Only the time stamp is little-endian: seconds and 2^-32 fractions.
struct ErfHdr {
  std::array<std::byte, 8> time_stamp;
  std::uint8_t type;
  std::uint8_t flags;
  wire::Be16 record_len;
  wire::Be16 lost;
  wire::Be16 wire_len;
};
static_assert(wire::WireRecord<ErfHdr> && sizeof(ErfHdr) == 16);

/// Opens and truncates a regular file. Does not wait for a pipe or follow a link.
Result<std::FILE*> open_regular(const std::string& path) {
  const auto refused = [&path](const char* why) {
    return fail(Errc::kRefused, "{}: {}", path, why);
  };
  const int fd =
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
  if (fd < 0)
    return refused(errno == ELOOP ? "symbolic links are not followed" : std::strerror(errno));
  struct stat is {};
  const char* why = nullptr;
  if (fstat(fd, &is) != 0 || !S_ISREG(is.st_mode)) why = "not a regular file";
  if (why == nullptr && ftruncate(fd, 0) != 0) why = std::strerror(errno);
  std::FILE* const stream = why == nullptr ? fdopen(fd, "wb") : nullptr;
  if (stream != nullptr) return stream;
  close(fd);
  return refused(why != nullptr ? why : "no memory for a stream");
}

}  // namespace

void ErfWriter::PcapClose::operator()(pcap* p) const {
  pcap_close(p);
}
void ErfWriter::DumpClose::operator()(pcap_dumper* d) const {
  pcap_dump_close(d);
}

ErfWriter::ErfWriter(std::string path, pcap* handle, pcap_dumper* dumper)
    : path_{std::move(path)}, handle_{handle}, dumper_{dumper} {}

Result<ErfWriter> ErfWriter::open(const std::string& path) {
  auto stream = open_regular(path);
  if (!stream) return tl::make_unexpected(stream.error());
  pcap* handle = pcap_open_dead(kLinkTypeErf, kSnapLen);
  if (handle == nullptr) {
    std::fclose(*stream);
    return fail(Errc::kNoResources, "no memory for a capture");
  }
  pcap_dumper* dumper = pcap_dump_fopen(handle, *stream);
  if (dumper == nullptr) {
    const std::string why = pcap_geterr(handle);
    pcap_close(handle);
    std::fclose(*stream);
    return fail(Errc::kRefused, "{}: {}", path, why);
  }
  return ErfWriter{path, handle, dumper};
}

Status ErfWriter::write(std::span<const std::byte> frame, std::uint64_t unix_ns) {
  const std::size_t wire_len = frame.size() + sizeof(std::uint16_t);
  const std::size_t record_len = sizeof(ErfHdr) + wire_len;
  if (record_len > kSnapLen)
    return fail(Errc::kInvalidArgument, "a frame of {} octets does not fit into an ERF record",
                frame.size());

  const std::uint64_t seconds = unix_ns / 1'000'000'000;
  const std::uint64_t fraction = ((unix_ns % 1'000'000'000) << 32) / 1'000'000'000;
  ErfHdr header{{},
                kErfInfiniband,
                kVaryingLength,
                wire::Be16{static_cast<std::uint16_t>(record_len)},
                {},
                wire::Be16{static_cast<std::uint16_t>(wire_len)}};
  const std::uint64_t time_stamp = seconds << 32 | fraction;
  std::memcpy(header.time_stamp.data(), &time_stamp, sizeof time_stamp);

  const std::uint16_t vcrc = wire::vcrc(frame);
  record_.resize(record_len);
  std::memcpy(record_.data(), &header, sizeof header);
  std::memcpy(record_.data() + sizeof header, frame.data(), frame.size());
  std::memcpy(record_.data() + sizeof header + frame.size(), &vcrc, sizeof vcrc);

  pcap_pkthdr packet{};
  packet.ts.tv_sec = static_cast<time_t>(seconds);
  packet.ts.tv_usec = static_cast<suseconds_t>(unix_ns % 1'000'000'000 / 1000);
  packet.caplen = packet.len = static_cast<bpf_u_int32>(record_len);
  pcap_dump(reinterpret_cast<u_char*>(dumper_.get()), &packet,
            reinterpret_cast<const u_char*>(record_.data()));
  if (std::ferror(pcap_dump_file(dumper_.get())) != 0)
    return fail(Errc::kNoResources, "cannot write to {}", path_);
  size_ += kPacketHeader + record_len;
  return {};
}

}  // namespace ipoib::mgmt
