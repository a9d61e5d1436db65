// SPDX-License-Identifier: BSD-3-Clause
// Broken contracts, for tests.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "lib/base/contract.h"

namespace ipoib {

/// The call ends the process and says on stderr what `message`, a regular expression, matches; or
/// is as good as any other, where contracts are not checked.
template <class Call>
void expect_broken(const Call& call, const std::string& message) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  if (kContractsChecked)
    EXPECT_DEATH(call(), message);
  else
    call();
}

/// For a call that does harm where contracts are not checked, and so is not made there.
template <class Call>
void expect_caught(const Call& call, const std::string& message) {
  if (kContractsChecked) expect_broken(call, message);
}

}  // namespace ipoib
