// The errors that a rank throws when it cannot continue with the other ranks. group_table.h and
// heartbeat.h detect the loss.
#pragma once

#include <exception>
#include <string>

#include "penstock/base/error.h"

namespace penstock::dist {

/// The connection to another rank ended, or that rank did not answer in time. The group can no
/// longer be used. The message names this rank and the operation.
class LostRank : public Error {
 public:
  using Error::Error;
};

/// This rank itself failed while other ranks wait in operations with it; they lose it. The message
/// names this rank and the reason.
class FailedRank : public LostRank {
 public:
  FailedRank(const std::string& name, const std::exception& error);
  FailedRank(const FailedRank& failed, const std::string& more) : LostRank(failed.what() + more) {}
};

}  // namespace penstock::dist
