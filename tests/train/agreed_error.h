// The error on which the ranks of a check agree.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "penstock/base/error.h"
#include "penstock/train/ranks/agreement.h"
#include "tests/dist/ranks.h"

namespace penstock::testing {

/// The message of rank 0's Error in check(group), which every rank calls; "accepted" without one.
/// Expects that the other ranks leave the report to rank 0.
inline std::string agreed_error(int ranks,
                                const std::function<void(const dist::ProcessGroup&)>& check) {
  std::string said = "accepted";
  on_ranks(ranks, [&](const dist::ProcessGroup& group) {
    try {
      check(group);
    } catch (const ReportedByRankZero&) {
      EXPECT_GT(group.rank(), 0);
    } catch (const Error& error) {
      said = error.what();
    }
  });
  return said;
}

}  // namespace penstock::testing
