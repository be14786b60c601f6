#include "penstock/cli/processes/ranks.h"

#include <charconv>
#include <cstdint>
#include <cstdio>

#include "penstock/base/error.h"
#include "penstock/train/ranks/agreement.h"

namespace penstock {
namespace {

constexpr const char* kSilence = "PENSTOCK_SILENT_SECONDS";

/// The time in PENSTOCK_SILENT_SECONDS, or `usual` if that is not set.
std::chrono::seconds silence_or(std::chrono::seconds usual) {
  const auto text = dist::process_environment()(kSilence);
  if (!text || text->empty()) return usual;
  std::int64_t seconds = -1;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), seconds);
  PENSTOCK_CHECK(error == std::errc() && end == text->data() + text->size() && seconds >= 0 &&
                     seconds <= 86400,
                 kSilence, " = '", *text,
                 "': give whole seconds up to 86400, or 0 to wait for a silent rank without end");
  return std::chrono::seconds(seconds);
}

}  // namespace

dist::ProcessGroup join_ranks(const dist::Identity& identity, std::chrono::seconds timeout,
                              bool quiet) {
  dist::GroupOptions options{
      .timeout = timeout,
      .check = dist::process_environment()("PENSTOCK_CHECK_COLLECTIVES") == "1"};
  options.silence = silence_or(options.silence);
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
