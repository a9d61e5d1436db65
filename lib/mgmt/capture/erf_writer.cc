// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/capture/erf_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pcap/pcap.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
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

Error refused(const std::string& path, const char* why) {
  return {Errc::kRefused, fmt::format("{}: {}", path, why)};
}

/// True if something has the name and is no regular file. Does not follow a link.
bool is_special(const std::string& path) {
  struct stat is {};
  return lstat(path.c_str(), &is) == 0 && !S_ISREG(is.st_mode);
}

/// Creates a file that did not exist.
Result<int> create(const std::string& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd >= 0) return fd;
  if (errno != EEXIST) return tl::make_unexpected(refused(path, std::strerror(errno)));
  return fail(Errc::kExists, "{} exists already; add replace to replace it", path);
}

/// Creates a file in the same folder. `path` becomes its name.
Result<int> create_beside(std::string& path) {
  std::string fresh = path + ".XXXXXX";
  const int fd = mkostemp(fresh.data(), O_CLOEXEC);
  if (fd < 0) return tl::make_unexpected(refused(path, std::strerror(errno)));
  path = std::move(fresh);
  return fd;
}

/// Takes what libpcap writes, for fopencookie(3).
ssize_t keep(void* octets, const char* data, std::size_t size) {
  const auto* first = reinterpret_cast<const std::byte*>(data);
  auto& to = *static_cast<std::vector<std::byte>*>(octets);
  to.insert(to.end(), first, first + size);
  return static_cast<ssize_t>(size);
}

}  // namespace

void ErfWriter::PcapClose::operator()(pcap* p) const {
  pcap_close(p);
}
void ErfWriter::DumpClose::operator()(pcap_dumper* d) const {
  pcap_dump_close(d);
}

ErfWriter::~ErfWriter() {
  dumper_.reset();
  if (fd_ >= 0) ::close(fd_);
}

Result<std::unique_ptr<ErfWriter>> ErfWriter::open(const std::string& path, bool replace) {
  if (is_special(path)) return tl::make_unexpected(refused(path, "not a regular file"));
  std::string fresh = path;
  const Result<int> fd = replace ? create_beside(fresh) : create(path);
  if (!fd) return tl::make_unexpected(fd.error());
  std::unique_ptr<ErfWriter> writer{new ErfWriter{path, *fd}};
  Status begun = writer->begin();
  // The old file stays until the new one has taken something.
  if (begun && replace && rename(fresh.c_str(), path.c_str()) != 0)
    begun = tl::make_unexpected(refused(path, std::strerror(errno)));
  if (begun) return writer;
  unlink(fresh.c_str());
  return tl::make_unexpected(begun.error());
}

Status ErfWriter::begin() {
  handle_.reset(pcap_open_dead(kLinkTypeErf, kSnapLen));
  std::FILE* const stream =
      handle_ ? fopencookie(&unwritten_, "w", {nullptr, keep, nullptr, nullptr}) : nullptr;
  if (stream == nullptr) return fail(Errc::kNoResources, "no memory for a capture");
  std::setvbuf(stream, nullptr, _IONBF, 0);
  dumper_.reset(pcap_dump_fopen(handle_.get(), stream));
  if (dumper_) return flush();
  const Error why = refused(path_, pcap_geterr(handle_.get()));
  std::fclose(stream);
  return tl::make_unexpected(why);
}

Status ErfWriter::failed(const char* what) {
  return fail(Errc::kNoResources, "{} {}: {}", what, path_, std::strerror(errno));
}

/// After an error the file ends with the last record that was written before.
Status ErfWriter::flush() {
  std::span<const std::byte> rest{unwritten_};
  while (!rest.empty()) {
    const ssize_t n = ::write(fd_, rest.data(), rest.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      Status why = failed("cannot write to");
      static_cast<void>(ftruncate(fd_, static_cast<off_t>(written_)) == 0);
      unwritten_.clear();
      return why;
    }
    rest = rest.subspan(static_cast<std::size_t>(n));
  }
  written_ += unwritten_.size();
  unwritten_.clear();
  return {};
}

Status ErfWriter::close() {
  if (auto s = flush(); !s) return s;
  return ::close(std::exchange(fd_, -1)) == 0 ? Status{} : failed("cannot complete");
}

Status ErfWriter::append(std::span<const std::byte> frame, std::uint64_t unix_ns) {
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
  return {};
}

}  // namespace ipoib::mgmt
