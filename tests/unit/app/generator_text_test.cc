// SPDX-License-Identifier: BSD-3-Clause
#include "app/config/generator_text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace ipoib::app {
namespace {

/// Expects that the value is written back unchanged, or as `written`.
template <class T>
void expect_taken(const TextForm<T>& form, std::string_view text, std::string_view written = {}) {
  const auto value = form.parse(text);
  ASSERT_TRUE(value) << text;
  EXPECT_EQ(form.format(*value), written.empty() ? text : written);
}

TEST(GeneratorText, Addresses) {
  expect_taken(tx_ip_form(), "198.18.0.1,198.18.0.2");
  expect_taken(tx_ip_form(), "fd00::1,2001:db8::2");
  for (const char* text : {"", "10.0.0.1", "10.0.0.1,", ",10.0.0.1", "10.0.0.1,fd00::1",
                           "10.0.0.1,10.0.0.2,10.0.0.3", "10.0.0.1,239.1.1.1", "ff02::1,fd00::1"})
    EXPECT_FALSE(tx_ip_form().parse(text)) << text;
}

TEST(GeneratorText, Ports) {
  expect_taken(tx_udp_form(), "1000,2000");
  expect_taken(tx_udp_form(), "9", "9,9");
  for (const char* text : {"", "0", "65536", "9,", "9,0", ",9", "9,9,9", "-1", "9x"})
    EXPECT_FALSE(tx_udp_form().parse(text)) << text;
}

TEST(GeneratorText, Sizes) {
  expect_taken(packet_sizes_form(), "64");
  expect_taken(packet_sizes_form(), "44,9600,1500");
  expect_taken(packet_sizes_form(), "imix");
  const auto imix = packet_sizes_form().parse("imix");
  EXPECT_EQ(std::count(imix->begin(), imix->end(), 64), 7);
  EXPECT_EQ(std::count(imix->begin(), imix->end(), 576), 4);
  EXPECT_EQ(std::count(imix->begin(), imix->end(), 1500), 1);
  std::string many = "64";
  for (int i = 0; i < 256; ++i) many += ",64";
  for (const std::string& text : {std::string{}, std::string{"43"}, std::string{"9601"},
                                  std::string{"64,"}, std::string{",64"}, std::string{"64,,64"},
                                  std::string{"IMIX"}, std::string{"64 128"}, many})
    EXPECT_FALSE(packet_sizes_form().parse(text)) << text;
}

TEST(GeneratorText, Rates) {
  expect_taken(packet_rate_form(), "0");
  expect_taken(packet_rate_form(), "0 gbps", "0");
  expect_taken(packet_rate_form(), "1000 pps");
  expect_taken(packet_rate_form(), "2.5 gbps");
  expect_taken(packet_rate_form(), "10 percent");
  for (const char* text : {"", "1000", "1 kpps", "0.5 pps", "101 percent", "-1 pps", "nan gbps",
                           "inf pps", "1  pps", "1 pps ", "1e11 pps"})
    EXPECT_FALSE(packet_rate_form().parse(text)) << text;
}

}  // namespace
}  // namespace ipoib::app
