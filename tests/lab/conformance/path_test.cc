// SPDX-License-Identifier: BSD-3-Clause
// Path records: their contents, and the pairs of ports and partitions without a path.
#include "lib/wire/iba.h"
#include "lib/wire/ipoib.h"
#include "tests/lab/conformance/fixture.h"

namespace ipoib::conformance {
namespace {

/// Every port has joined the broadcast groups of its partitions, as links do before they query
/// paths, because the embedded administrator learns ports from their requests.
class Path : public ConformanceFixture {
 protected:
  void SetUp() override {
    const std::pair<PortId, std::uint16_t> links[] = {
        {kA, kDefault},       {kA, kLab},       {kB, kDefault},       {kB, kLab},
        {kLimited, kDefault}, {kLimited, kLab}, {kOutside, kDefault}, {kOutside, kOther}};
    for (const auto& [port, pkey] : links)
      ASSERT_EQ(status(port, join(wire::broadcast_mgid(pkey, 2), port, kFullMember, pkey)), kOk);
  }
  static sa::Request path(PortId from, PortId to, std::uint16_t pkey = kDefault) {
    return sa::find_path(gid(from), gid(to), pkey);
  }
  static sa::Request paths(std::uint64_t mask, void (*change)(PathRecord&)) {
    return with(path(kA, kB), mask, change);
  }
};

TEST_F(Path, SaysAllThatAnAddressHandleNeeds) {
  const auto p = record<PathRecord>(kA, path(kA, kB));
  EXPECT_EQ(p.dgid, gid(kB));
  EXPECT_EQ(p.sgid, gid(kA));
  EXPECT_EQ(p.dlid.host(), subnet().port(kB).lid);
  EXPECT_EQ(p.slid.host(), subnet().port(kA).lid);
  EXPECT_EQ(p.pkey.host(), kDefault);
  EXPECT_EQ(p.sl(), 0);
  EXPECT_EQ(p.hop_limit(), 0);
  EXPECT_EQ(int{p.mtu}, 0x84);
  EXPECT_EQ(int{p.rate}, 0x83);
  EXPECT_EQ(wire::selector_of(p.lifetime), wire::Selector::kExactly);
  EXPECT_EQ(p.reversible_numb, 0x80);
}

TEST_F(Path, ToOneselfTakesNoTime) {
  const auto p = record<PathRecord>(kA, path(kA, kA));
  EXPECT_EQ(p.dlid, p.slid);
  EXPECT_EQ(int{p.lifetime}, 0x80);
}

TEST_F(Path, ToTheAdministratorIsAPathToo) {
  const auto p =
      record<PathRecord>(kA, sa::find_path(gid(kA), subnet().administrator().gid, kDefault));
  EXPECT_EQ(p.dlid.host(), subnet().administrator().lid);
}

TEST_F(Path, IsOfThePartitionAskedFor) {
  EXPECT_EQ(record<PathRecord>(kA, path(kA, kB, kLab)).pkey.host(), kLab);
  EXPECT_EQ(record<PathRecord>(kA, path(kA, kLimited, kLab)).pkey.host(), kLab);
  EXPECT_EQ(record<PathRecord>(kLimited, path(kLimited, kA, kLab)).pkey.host(), kLab);
}

TEST_F(Path, PartitionsNotSharedHaveNone) {
  EXPECT_EQ(status(kA, path(kA, kOutside, kLab)), kNoRecords);
  EXPECT_EQ(status(kB, path(kA, kOutside, kOther)), kNoRecords);
  EXPECT_EQ(status(kA, path(kA, kOutside, kOther)), answer(kOwnPathInAnothersPartition));
  EXPECT_EQ(status(kA, path(kA, kB, kUnknown)), kNoRecords);
  EXPECT_EQ(status(kA, path(kA, kOutside)), kOk) << "the default partition is everybody's";
}

TEST_F(Path, UnknownPortsHaveNone) {
  const auto stranger = wire::Gid::of(wire::kDefaultGidPrefix, 0xdead);
  EXPECT_EQ(status(kA, sa::find_path(gid(kA), stranger, kDefault)), kNoRecords);
  EXPECT_EQ(status(kA, sa::find_path(stranger, gid(kB), kDefault)), kNoRecords);
}

TEST_F(Path, GidsOfAnotherSubnet) {
  const auto foreign = wire::Gid::of(0xfec0'0000'0000'0000, 0x77);
  EXPECT_EQ(status(kA, sa::find_path(gid(kA), foreign, kDefault)), kNoRecords);
  EXPECT_EQ(status(kA, sa::find_path(foreign, gid(kB), kDefault)), kNoRecords);
}

TEST_F(Path, EndsLeftOutAreAnyPort) {
  const auto to_b = record<PathRecord>(kA, without(path(kA, kB), PathRecord::kSgid));
  EXPECT_EQ(to_b.dlid.host(), subnet().port(kB).lid);
  const auto from_a = record<PathRecord>(kA, without(path(kA, kB), PathRecord::kDgid));
  EXPECT_EQ(from_a.slid.host(), subnet().port(kA).lid) << "the first of many";
  const std::uint64_t both = PathRecord::kSgid | PathRecord::kDgid;
  EXPECT_EQ(status(kA, without(path(kA, kB), both)), kOk);
}

TEST_F(Path, BetweenOthersIsAnsweredToo) {
  const auto p = record<PathRecord>(kOutside, path(kA, kB));
  EXPECT_EQ(p.slid.host(), subnet().port(kA).lid);
  EXPECT_EQ(p.dlid.host(), subnet().port(kB).lid);
}

TEST_F(Path, ToAGroupIsItsMlid) {
  const wire::Gid group = fresh();
  const R made = member(kA, create(group));
  const auto p = record<PathRecord>(kA, sa::find_path(gid(kA), group, kDefault));
  EXPECT_EQ(p.dlid, made.mlid);
  EXPECT_EQ(p.pkey.host(), kDefault);
  EXPECT_EQ(p.mtu, made.mtu);
  EXPECT_EQ(status(kA, sa::find_path(gid(kA), fresh(), kDefault)), kNoRecords);
  EXPECT_EQ(status(kB, sa::find_path(gid(kB), group, kDefault)), kNoRecords) << "no member";
  EXPECT_EQ(status(kA, sa::find_path(gid(kA), group, kLab)), kNoRecords) << "other partition";
}

TEST_F(Path, LimitsAreKeptOrThereIsNoPath) {
  using P = PathRecord;
  const std::uint64_t mtu = P::kMtuSel | P::kMtu, rate = P::kRateSel | P::kRate,
                      life = P::kLifeSel | P::kLife;
  const Row<PathRecord> rows[] = {
      {"MTU exactly 2048", mtu, [](P& p) { p.mtu = 0x84; }, kOk},
      {"MTU > 1024", mtu, [](P& p) { p.mtu = 0x03; }, kOk},
      {"MTU > 2048", mtu, [](P& p) { p.mtu = 0x04; }, kNoRecords},
      {"MTU exactly 1024", mtu, [](P& p) { p.mtu = 0x83; }, kOk},
      {"rate > 5", rate, [](P& p) { p.rate = 0x05; }, kOk},
      {"rate > 10", rate, [](P& p) { p.rate = 0x03; }, kNoRecords},
      {"rate exactly 10", rate, [](P& p) { p.rate = 0x83; }, kOk},
      {"no such MTU", mtu, [](P& p) { p.mtu = 0x80; }, kInvalid},
      {"no such rate", rate, [](P& p) { p.rate = 0x81; }, kInvalid},
      {"MTU < 256", mtu, [](P& p) { p.mtu = 0x41; }, kNoRecords},
      {"rate exactly 5", rate, [](P& p) { p.rate = 0x85; }, kNoRecords},
      {"rate < 2.5", rate, [](P& p) { p.rate = 0x42; }, kNoRecords},
      {"lifetime > the subnet's", life, [](P& p) { p.lifetime = 18; }, kNoRecords},
      {"lifetime exactly more", life, [](P& p) { p.lifetime = 0x80 | 19; }, kNoRecords},
      {"lifetime < 1", life, [](P& p) { p.lifetime = 0x40 | 1; }, kNoRecords},
      {"DLID nobody has beside the DGID", P::kDlid, [](P& p) { p.dlid.set(0x77); }, kNoRecords},
      {"SLID nobody has beside the SGID", P::kSlid, [](P& p) { p.slid.set(0x77); }, kNoRecords},
      {"DLID of another port", P::kDlid, [](P& p) { p.dlid.set(subnet().port(kOutside).lid); },
       kInvalid},
      {"SLID of another port", P::kSlid, [](P& p) { p.slid.set(subnet().port(kOutside).lid); },
       kInvalid},
      {"reversible", P::kReversible, [](P& p) { p.reversible_numb = 0x81; }, kOk},
  };
  for (const Row<PathRecord>& row : rows) {
    SCOPED_TRACE(row.what);
    EXPECT_EQ(status(kA, paths(row.mask, row.change)), answer(row.status));
  }
}

TEST_F(Path, LimitsAskedForAreAnswered) {
  using P = PathRecord;
  const auto path_with = [](std::uint64_t mask, void (*change)(P&)) {
    return record<P>(kA, paths(mask, change));
  };
  const std::uint64_t mtu = P::kMtuSel | P::kMtu, rate = P::kRateSel | P::kRate,
                      life = P::kLifeSel | P::kLife;
  EXPECT_EQ(int{path_with(mtu, [](P& p) { p.mtu = 0x83; }).mtu}, 0x83);
  EXPECT_EQ(int{path_with(mtu, [](P& p) { p.mtu = 0x44; }).mtu}, 0x83) << "< 2048";
  EXPECT_EQ(int{path_with(mtu, [](P& p) { p.mtu = 0xc1; }).mtu}, 0x84) << "best";
  EXPECT_EQ(int{path_with(rate, [](P& p) { p.rate = 0x43; }).rate}, 0x85) << "< 10";
  EXPECT_EQ(int{path_with(life, [](P& p) { p.lifetime = 0x80 | 10; }).lifetime}, 0x80 | 10);
  EXPECT_EQ(int{path_with(life, [](P& p) { p.lifetime = 0x40 | 18; }).lifetime}, 0x80 | 17);
  EXPECT_EQ(int{path_with(life, [](P& p) { p.lifetime = 0x40 | 19; }).lifetime}, 0x80 | 18);
  EXPECT_EQ(path_with(P::kSl, [](P& p) { p.qos_sl.set(7); }).sl(), 7) << "any SL goes";
  EXPECT_EQ(path_with(P::kFlow, [](P& p) { p.raw_flow_hop.set(0x12345 << 8); }).flow_label(), 0U)
      << "the sender's business, as";
  EXPECT_EQ(path_with(P::kTclass, [](P& p) { p.tclass = 3; }).tclass, 0);
}

TEST_F(Path, TableOfAPairIsOnePath) {
  sa::Request request = path(kA, kB);
  request.method = wire::Method::kGetTable;
  const sa::Reply reply = table(kA, request);
  ASSERT_EQ(reply.count(), 1U);
  EXPECT_EQ(reply.record<PathRecord>()->dlid.host(), subnet().port(kB).lid);
}

}  // namespace
}  // namespace ipoib::conformance
