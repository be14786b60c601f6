#include "penstock/cli/ranks.h"

#include <cstdio>

#include "penstock/train/agreement.h"

namespace penstock {

dist::ProcessGroup join_ranks(const dist::Identity& identity, std::chrono::seconds timeout,
                              bool quiet) {
  dist::GroupOptions options{
      .timeout = timeout,
      .check = dist::process_environment()("PENSTOCK_CHECK_COLLECTIVES") == "1"};
  if (identity.rank == 0 && !quiet)
    options.waiting = [](const std::string& missing) {
      std::fprintf(stderr, "%s\n", missing.c_str());
    };
  return dist::ProcessGroup::join(identity, options);
}

int exit_code_of_rank(const dist::Identity& identity, const std::function<int()>& work) {
  try {
    return work();
  } catch (const ReportedByRankZero&) {
    return 1;
  } catch (const dist::FailedRank&) {
    throw;  // it knows why
  } catch (const dist::LostRank&) {
    if (!identity.launched) throw;  // else the launcher says which rank died
    return kLostRankCode;
  }
}

}  // namespace penstock
