// SPDX-License-Identifier: BSD-3-Clause
// Expectations of broken contracts, for tests.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "lib/base/contract.h"

namespace ipoib {

/// Expects that the call ends the process with a message on stderr that `message`, a regular
/// expression, matches. In builds that do not check contracts, it only makes the call.
template <class Call>
void expect_broken(const Call& call, const std::string& message) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  if (kContractsChecked)
    EXPECT_DEATH(call(), message);
  else
    call();
}

/// Like expect_broken(), for a call that does harm if contracts are not checked: such builds do not
/// make it.
template <class Call>
void expect_caught(const Call& call, const std::string& message) {
  if (kContractsChecked) expect_broken(call, message);
}

}  // namespace ipoib
