#include "penstock/cli/processes/ranks.h"

#include <cstdint>
#include <cstdio>

#include "penstock/base/error.h"
#include "penstock/base/parse_number.h"
#include "penstock/train/ranks/agreement.h"

namespace penstock {
namespace {

/// An environment variable with a number of seconds.
struct Patience {
  const char* name;
  std::int64_t least;
  const char* values;  ///< the allowed ones, for messages
};
constexpr Patience kSilence{"PENSTOCK_SILENT_SECONDS", 0,
                            "up to 86400, or 0 to wait for a silent rank without end"};
constexpr Patience kStart{"PENSTOCK_START_SECONDS", 1, "from 1 to 86400"};

/// The variable's seconds, or `usual` if it is not set.
std::chrono::seconds seconds_or(std::chrono::seconds usual, const Patience& patience) {
  const auto text = dist::process_environment()(patience.name);
  if (!text || text->empty()) return usual;
  const auto seconds = parse_number<std::int64_t>(*text);
  PENSTOCK_CHECK(seconds && *seconds >= patience.least && *seconds <= 86400, patience.name, " = '",
                 *text, "': give whole seconds ", patience.values);
  return std::chrono::seconds(*seconds);
}

}  // namespace

void check_waiting_times() {
  for (const Patience& patience : {kSilence, kStart}) seconds_or({}, patience);
}

dist::ProcessGroup join_ranks(const dist::Identity& identity, std::chrono::seconds timeout,
                              bool quiet) {
  dist::GroupOptions options{
      .timeout = timeout,
      .check = dist::process_environment()("PENSTOCK_CHECK_COLLECTIVES") == "1"};
  options.silence = seconds_or(options.silence, kSilence);
  options.start_timeout = seconds_or(options.start_timeout, kStart);
  if (!quiet)
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
    throw;  // its message says why
  } catch (const dist::LostRank&) {
    if (!identity.launched) throw;  // else the launcher says which rank died
    return kLostRankCode;
  }
}

}  // namespace penstock
