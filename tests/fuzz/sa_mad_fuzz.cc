// SPDX-License-Identifier: BSD-3-Clause
// SA MADs and their records, at every distance between records that a sender may claim.
#include <algorithm>

#include "lib/wire/notice.h"
#include "lib/wire/rmpp.h"
#include "lib/wire/sa_records.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace ipoib::wire;
using ipoib::test::require;

template <class Record>
void read_records(const SaMad& mad) {
  const std::size_t stride = std::size_t{mad.hdr.attr_offset.host()} * 8;
  for (std::size_t at = 0; at < 2 * mad.data.size(); at += std::max(stride, sizeof(Record))) {
    const auto record = read<Record>(mad.data, at);
    require(record.has_value() == (at + sizeof(Record) <= mad.data.size()));
    if (!record) return;
    SaMad copy = mad;
    require(write(std::span{copy.data}, at, *record));
    require(copy.data == mad.data);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto octets = ipoib::test::input(data, size);
  SaMad mad;
  const MadError error = parse_sa_mad(octets, mad);
  require(!mad_error_name(error).empty());
  require((error == MadError::kLength) == (octets.size() != kMadLen));
  if (error == MadError::kLength) return 0;
  require(std::ranges::equal(bytes_of(mad), octets));
  require(!status_name(mad.hdr.mad.status.host()).empty());
  read_records<McMemberRecord>(mad);
  read_records<PathRecord>(mad);
  read_records<ClassPortInfo>(mad);
  read_records<InformInfoRecord>(mad);
  Rmpp rmpp;
  const RmppError rmpp_error = parse_rmpp(mad.hdr, rmpp);
  require(!rmpp_error_name(rmpp_error).empty());
  if (rmpp_error == RmppError::kNone) {
    SaMad copy = mad;
    write_rmpp(copy.hdr, rmpp);
    require(std::ranges::equal(bytes_of(copy), bytes_of(mad)));
  }
  InformInfo info{};
  require(!inform_error_name(parse_inform_info(mad.data, info)).empty());
  Notice notice{};
  require(!notice_error_name(parse_notice(mad.data, notice)).empty());
  return 0;
}
