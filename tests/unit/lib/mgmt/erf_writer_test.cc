#include "lib/mgmt/erf_writer.h"

#include <gtest/gtest.h>
#include <pcap/pcap.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

#include "tests/vectors/vectors.h"

namespace ipoib::mgmt {
namespace {

std::vector<std::vector<std::byte>> records_of(const std::string& path) {
  std::vector<std::vector<std::byte>> records;
  char error[PCAP_ERRBUF_SIZE];
  pcap_t* file = pcap_open_offline(path.c_str(), error);
  if (file == nullptr) return records;
  EXPECT_EQ(pcap_datalink(file), 197);
  pcap_pkthdr* header = nullptr;
  const u_char* data = nullptr;
  while (pcap_next_ex(file, &header, &data) == 1) {
    const auto* first = reinterpret_cast<const std::byte*>(data);
    records.emplace_back(first, first + header->caplen);
  }
  pcap_close(file);
  return records;
}

struct ErfWriterTest : testing::Test {
  std::string path = testing::TempDir() + "erf_writer_test." + std::to_string(getpid()) + ".pcap";
  void TearDown() override { unlink(path.c_str()); }
};

/// Writes every frame of a file made independently and compares the records, time stamps apart.
TEST_F(ErfWriterTest, WritesTheRecordsThatTsharkReads) {
  const auto expected = records_of(test::vector_path("frames-generated-erf.pcap"));
  ASSERT_EQ(expected.size(), 66U);
  constexpr std::size_t kHeader = 16, kVcrc = 2, kTimeStamp = 8;
  {
    auto writer = ErfWriter::open(path);
    ASSERT_TRUE(writer) << writer.error().what;
    for (const auto& r : expected)
      ASSERT_TRUE(writer->write(std::span{r}.subspan(kHeader, r.size() - kHeader - kVcrc), 1));
  }
  const auto written = records_of(path);
  ASSERT_EQ(written.size(), expected.size());
  for (std::size_t i = 0; i < written.size(); ++i) {
    ASSERT_EQ(written[i].size(), expected[i].size()) << i;
    EXPECT_EQ(std::memcmp(written[i].data() + kTimeStamp, expected[i].data() + kTimeStamp,
                          written[i].size() - kTimeStamp),
              0)
        << i;
  }
}

TEST_F(ErfWriterTest, TimeStampsAreSecondsAndFractionsLittleEndian) {
  {
    auto writer = ErfWriter::open(path);
    ASSERT_TRUE(writer);
    ASSERT_TRUE(writer->write(std::vector<std::byte>(24), 1'700'000'000'500'000'000ULL));
  }
  const auto written = records_of(path);
  ASSERT_EQ(written.size(), 1U);
  std::uint64_t stamp = 0;
  std::memcpy(&stamp, written[0].data(), sizeof stamp);
  EXPECT_EQ(stamp >> 32, 1'700'000'000U);
  EXPECT_EQ(stamp & 0xffff'ffff, 0x8000'0000U);
}

TEST_F(ErfWriterTest, FailuresNameTheFile) {
  const auto writer = ErfWriter::open("/nowhere/at/all.pcap");
  ASSERT_FALSE(writer);
  EXPECT_NE(writer.error().what.find("/nowhere/at/all.pcap"), std::string::npos);
  auto full = ErfWriter::open("/dev/full");
  if (!full) return;  // the header did not go out either
  Status status;
  for (int i = 0; i < 1000 && status; ++i) status = full->write(std::vector<std::byte>(1000), 0);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Errc::kNoResources);
}

TEST_F(ErfWriterTest, AFrameTooLongForARecordIsRefused) {
  auto writer = ErfWriter::open(path);
  ASSERT_TRUE(writer);
  EXPECT_EQ(writer->write(std::vector<std::byte>(65'535), 0).error().code, Errc::kInvalidArgument);
}

}  // namespace
}  // namespace ipoib::mgmt
