#include "penstock/study/runs/run_queue.h"

#include <algorithm>

#include "penstock/base/error.h"

namespace penstock::study {

std::string named(const RunKey& run) { return concat(run.first, ", seed ", run.second); }

RunQueue::RunQueue(const std::vector<RunToTrain>& runs) : waiting_(runs) {
  for (const RunToTrain& run : runs) open_.insert(run.key);
}

std::optional<RunToTrain> RunQueue::next() {
  const auto found = std::ranges::find_if(waiting_, [&](const RunToTrain& run) {
    return std::ranges::none_of(run.after, [&](const RunKey& one) { return open_.contains(one); });
  });
  if (found == waiting_.end()) return std::nullopt;
  RunToTrain run = std::move(*found);
  waiting_.erase(found);
  return run;
}

}  // namespace penstock::study
