// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/capture/erf_writer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pcap/pcap.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <vector>

#include "tests/support/vectors.h"

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

/// Limits the size of files, which is like a full file system to this process.
class FullDisk {
 public:
  explicit FullDisk(rlim_t octets) : handler_{std::signal(SIGXFSZ, SIG_IGN)} {
    EXPECT_EQ(getrlimit(RLIMIT_FSIZE, &before_), 0);
    const rlimit small{octets, before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  }
  ~FullDisk() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int);
};

/// Writes every frame of an independently made file, and compares the records without their time
/// stamps.
TEST_F(ErfWriterTest, WritesTheRecordsThatTsharkReads) {
  const auto expected = records_of(test::vector_path("frames-generated-erf.pcap"));
  ASSERT_EQ(expected.size(), 66U);
  constexpr std::size_t kHeader = 16, kVcrc = 2, kTimeStamp = 8;
  {
    auto writer = ErfWriter::open(path, false);
    ASSERT_TRUE(writer) << writer.error().what;
    for (const auto& r : expected)
      ASSERT_TRUE((*writer)->append(std::span{r}.subspan(kHeader, r.size() - kHeader - kVcrc), 1));
    ASSERT_TRUE((*writer)->close());
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
    auto writer = ErfWriter::open(path, false);
    ASSERT_TRUE(writer);
    ASSERT_TRUE((*writer)->append(std::vector<std::byte>(24), 1'700'000'000'500'000'000ULL));
    ASSERT_TRUE((*writer)->close());
  }
  const auto written = records_of(path);
  ASSERT_EQ(written.size(), 1U);
  std::uint64_t stamp = 0;
  std::memcpy(&stamp, written[0].data(), sizeof stamp);
  EXPECT_EQ(stamp >> 32, 1'700'000'000U);
  EXPECT_EQ(stamp & 0xffff'ffff, 0x8000'0000U);
}

TEST_F(ErfWriterTest, FailuresNameTheFile) {
  const auto writer = ErfWriter::open("/nowhere/at/all.pcap", false);
  ASSERT_FALSE(writer);
  EXPECT_NE(writer.error().what.find("/nowhere/at/all.pcap"), std::string::npos);
}

/// The file keeps the records that were written whole.
TEST_F(ErfWriterTest, P16_ADiskThatTakesNoMoreIsReported) {
  auto full = ErfWriter::open(path, false);
  ASSERT_TRUE(full);
  std::optional<FullDisk> disk{20'000};
  Status status;
  std::size_t written = 0;
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE((*full)->append(std::vector<std::byte>(1000), 0));
    status = (*full)->flush();
    if (!status) break;
    ++written;
  }
  disk.reset();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Errc::kNoResources);
  full->reset();
  EXPECT_EQ(records_of(path).size(), written);
  EXPECT_EQ(std::filesystem::file_size(path), 24 + written * (16 + 16 + 1002));
}

/// open() does not wait for a reader, and writes no file except the named one.
TEST_F(ErfWriterTest, P16_RefusesWhatIsNoRegularFile) {
  const std::string aside = path + ".aside";
  for (const bool replace : {false, true}) {
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
    EXPECT_EQ(ErfWriter::open(path, replace).error().what, path + ": not a regular file");
    unlink(path.c_str());

    std::ofstream{aside} << "mine";
    ASSERT_EQ(symlink(aside.c_str(), path.c_str()), 0);
    EXPECT_EQ(ErfWriter::open(path, replace).error().what, path + ": not a regular file");
    std::string text;
    std::ifstream{aside} >> text;
    EXPECT_EQ(text, "mine");
    unlink(path.c_str());
    unlink(aside.c_str());
    EXPECT_FALSE(ErfWriter::open("/dev/full", replace));
    EXPECT_FALSE(ErfWriter::open(testing::TempDir(), replace));
  }
}

TEST_F(ErfWriterTest, P16_ReplacesAFileIfAskedToAndKnowsItsLength) {
  std::ofstream{path} << std::string(10'000, 'x');
  EXPECT_EQ(ErfWriter::open(path, false).error().code, Errc::kExists);
  EXPECT_EQ(std::filesystem::file_size(path), 10'000U);
  std::uint64_t size = 0;
  {
    auto writer = ErfWriter::open(path, true);
    ASSERT_TRUE(writer);
    for (const std::size_t len : {24U, 100U, 4000U})
      ASSERT_TRUE((*writer)->append(std::vector<std::byte>(len), 0));
    size = (*writer)->size();
    ASSERT_TRUE((*writer)->close());
  }
  EXPECT_EQ(records_of(path).size(), 3U);
  EXPECT_EQ(std::filesystem::file_size(path), size);
}

/// A disk that takes half a header leaves everything as it was.
TEST_F(ErfWriterTest, P16_AFullDiskCostsNoFileAndLeavesNone) {
  namespace fs = std::filesystem;
  const std::string folder = path + ".folder", file = folder + "/x.pcap";
  ASSERT_TRUE(fs::create_directory(folder));
  const auto open = [&file](bool replace) {
    const FullDisk disk{10};
    return ErfWriter::open(file, replace);
  };
  EXPECT_EQ(open(false).error().code, Errc::kNoResources);
  EXPECT_TRUE(fs::is_empty(folder));
  std::ofstream{file} << "an old capture";
  EXPECT_EQ(open(true).error().code, Errc::kNoResources);
  EXPECT_EQ(fs::file_size(file), 14U);
  EXPECT_EQ(std::distance(fs::directory_iterator{folder}, {}), 1);
  EXPECT_TRUE(ErfWriter::open(file, true));
  EXPECT_EQ(fs::file_size(file), 24U);
  EXPECT_EQ(std::distance(fs::directory_iterator{folder}, {}), 1);
  fs::remove_all(folder);
}

TEST_F(ErfWriterTest, AFrameTooLongForARecordIsRefused) {
  auto writer = ErfWriter::open(path, false);
  ASSERT_TRUE(writer);
  EXPECT_EQ((*writer)->append(std::vector<std::byte>(65'535), 0).error().code,
            Errc::kInvalidArgument);
}

}  // namespace
}  // namespace ipoib::mgmt
