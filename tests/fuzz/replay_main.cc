// SPDX-License-Identifier: BSD-3-Clause
// Runs a fuzz target over kept inputs: every file of the named folders, and every shorter prefix of
// it. Each input is a heap block of its own size, so that AddressSanitizer detects an access one
// octet behind it.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/fuzz/fuzz.h"

namespace {

void replay(const std::filesystem::path& file) {
  std::ifstream in{file, std::ios::binary};
  const std::vector<char> whole{std::istreambuf_iterator<char>{in}, {}};
  for (std::size_t len = 0; len <= whole.size(); ++len) {
    const std::vector<std::uint8_t> beginning(whole.begin(),
                                              whole.begin() + static_cast<std::ptrdiff_t>(len));
    LLVMFuzzerTestOneInput(beginning.data(), beginning.size());
  }
}

}  // namespace

int main(int argc, char** argv) {
  int files = 0;
  for (int i = 1; i < argc; ++i) {
    for (const auto& entry : std::filesystem::directory_iterator{argv[i]}) {
      std::printf("%s\n", entry.path().filename().c_str());
      std::fflush(stdout);  // After a crash, the last line names the input.
      replay(entry.path());
      ++files;
    }
  }
  if (files == 0) std::fputs("no inputs\n", stderr);
  return files == 0 ? 1 : 0;
}
