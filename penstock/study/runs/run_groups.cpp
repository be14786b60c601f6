#include "penstock/study/runs/run_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "penstock/base/error.h"
#include "penstock/base/memory.h"
#include "penstock/base/progress.h"
#include "penstock/dist/work_queue.h"
#include "penstock/train/interrupt.h"

namespace penstock::study {
namespace {

using nlohmann::json;

/// How long a rank may wait for its group's first rank, which may be upcycling a model.
constexpr std::chrono::hours kWaitForFirst{24};

std::string to_text(const std::vector<RunToTrain>& runs) {
  json out = json::array();
  for (const auto& run : runs) out.push_back({run.key.first, run.key.second, run.processes});
  return out.dump();
}

std::vector<RunToTrain> runs_from(const std::string& text) {
  std::vector<RunToTrain> out;
  for (const json& run : json::parse(text))
    out.push_back({.key = {run.at(0).get<std::string>(), run.at(1).get<std::int64_t>()},
                   .processes = run.at(2).get<int>()});
  return out;
}

std::string ranks_of(const dist::ProcessGroup& group) {
  if (group.size() == 1) return "on " + group.name(0);
  return concat("on ", group.size(), " ranks from ", group.name(0));
}

}  // namespace

RunGroups::RunGroups(const StudyConfig& study, const StudyOptions& options, bool force,
                     const dist::ProcessGroup& world, int here)
    : study_(study),
      options_(options),
      force_(force),
      world_(world),
      here_(here),
      memory_(available_memory_bytes() / here) {
  world_.barrier("memory");  // before any rank allocates memory
}

bool RunGroups::train(const std::vector<RunToTrain>& runs, const SideBySide& study) {
  for (const RunToTrain& run : runs)
    PENSTOCK_CHECK(run.processes <= world_.size(), named(run.key), ": [parallel] takes ",
                   run.processes, " processes, and the study has ", world_.size());
  RunQueue queue(runs);
  while (queue.waiting() > 0) {
    std::vector<RunToTrain> now;
    std::vector<RunKey> keys;
    while (auto run = queue.next()) {
      keys.push_back(run->key);
      if (study.may_begin(run->key)) now.push_back(std::move(*run));
    }
    const bool complete = now.empty() || train_together(now);
    study.ended(keys);
    if (!complete) return false;
    for (const RunKey& key : keys) queue.ended(key);
  }
  return true;
}

/// Trains runs none of which waits for another. Returns false if they were interrupted.
bool RunGroups::train_together(const std::vector<RunToTrain>& runs) {
  training_ = true;
  world_.broadcast_bytes(to_text(runs));
  const Ended ended = train_on_all(runs);
  training_ = false;
  PENSTOCK_CHECK(ended.failure.empty() || ended.interrupted,
                 "a run failed, as said above; the same command goes on with what is missing");
  return !ended.interrupted;
}

bool RunGroups::follow() {
  const InterruptGuard interrupt;  // rank 0 gets the signal too, and decides what follows
  bool interrupted = false;
  while (true) {
    const auto runs = runs_from(world_.broadcast_bytes(""));
    if (runs.empty()) return !interrupted && interrupt.signal() == 0;
    interrupted = train_on_all(runs).interrupted;
  }
}

bool RunGroups::release() noexcept {
  if (training_) return false;  // this rank failed; the others notice that it is lost
  try {
    world_.broadcast_bytes(to_text({}));
    return true;
  } catch (const std::exception&) {  // the other ranks have ended
    return false;
  }
}

RunGroups::Ended RunGroups::train_on_all(const std::vector<RunToTrain>& runs) {
  const InterruptGuard interrupt;
  std::set<int, std::greater<>> sizes;
  for (const RunToTrain& run : runs) sizes.insert(run.processes);
  for (const int size : sizes) {
    std::vector<RunToTrain> of_size;
    std::ranges::copy_if(runs, std::back_inserter(of_size),
                         [&](const RunToTrain& run) { return run.processes == size; });
    const Ended ended = train_in_groups(of_size);
    if (ended.interrupted || !ended.failure.empty()) return ended;
  }
  return {};
}

RunGroups::Ended RunGroups::train_in_groups(const std::vector<RunToTrain>& runs) {
  const int size = runs.front().processes, groups = world_.size() / size;
  const int mine = std::min(world_.rank() / size, groups);  // `groups`: a rank left over
  const dist::ProcessGroup group = world_.split("study", mine, kWaitForFirst);
  dist::WorkQueue queue(world_, std::ssize(runs));
  Ended ended;
  if (mine < groups && group.rank() == 0) {
    ended = lead(group, runs, [&] { return queue.next(); });
    if (!ended.failure.empty()) queue.close();
    dismiss(group);
  } else if (mine < groups) {
    train_as_ordered({.group = group, .most = size, .here = here_, .memory = memory_}, force_);
  }
  for (const std::string& text : world_.gather(json{ended.interrupted, ended.failure}.dump())) {
    const json other = json::parse(text);
    ended.interrupted |= other.at(0).get<bool>();
    if (ended.failure.empty()) ended.failure = other.at(1).get<std::string>();
  }
  return ended;
}

RunGroups::Ended RunGroups::lead(const dist::ProcessGroup& group,
                                 const std::vector<RunToTrain>& runs,
                                 const std::function<std::optional<std::int64_t>()>& next) {
  while (const auto number = next()) {
    const RunKey& run = runs[static_cast<std::size_t>(*number)].key;
    say(fmt::format("[{}/{}] {}: begun {}", *number + 1, runs.size(), named(run), ranks_of(group)));
    try {
      if (!run_alone(group, run)) return {.interrupted = true};
    } catch (const dist::LostRank&) {
      throw;
    } catch (const std::exception& error) {
      const std::string failure = concat("the run of ", named(run), " failed: ", error.what());
      print_line(stderr, failure);  // now, because other groups may train for hours
      return {.failure = failure};
    }
    say(named(run) + ": done");
  }
  return {};
}

bool RunGroups::run_alone(const dist::ProcessGroup& group, const RunKey& run) {
  StudyOptions alone = options_;
  alone.only = run;
  alone.progress = nullptr;
  const StudyHooks hooks = training_hooks(
      nullptr, force_, {.group = group, .most = world_.size(), .here = here_, .memory = memory_});
  return !run_study(study_, alone, hooks).interrupted;
}

void RunGroups::say(const std::string& line) const { print_line(options_.progress, line); }

}  // namespace penstock::study
