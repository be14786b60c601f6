#include "penstock/dist/lost_rank.h"

#include "penstock/base/failure_text.h"

namespace penstock::dist {

FailedRank::FailedRank(const std::string& name, const std::exception& error)
    : LostRank(
          concat(name, " failed in the middle of work with other ranks: ", failure_text(error))) {}

}  // namespace penstock::dist
