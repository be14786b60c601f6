#include "penstock/dist/heartbeat_table.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>

#include "penstock/base/error.h"

namespace penstock::dist {

using std::chrono::milliseconds;

std::string text_of(const SilentRank& silent) {
  return concat(silent.rank, " ", static_cast<int>(silent.state), " ", silent.since.count());
}

std::optional<SilentRank> silent_from(const std::string& text) {
  int rank = 0, state = 0;
  std::int64_t since = 0;
  const int read = std::sscanf(text.c_str(), "%d %d %" SCNd64, &rank, &state, &since);
  if (read != 3 || state < 0 || state > static_cast<int>(RankState::followed)) return std::nullopt;
  return SilentRank{
      .rank = rank, .state = static_cast<RankState>(state), .since = milliseconds(since)};
}

void HeartbeatTable::heard(int rank, int connection, Time now) {
  ranks_[rank] = {.at = now, .connection = connection};
}

void HeartbeatTable::ended(int rank) { ranks_.erase(rank); }

void HeartbeatTable::hung_up(int connection) {
  for (const auto& [rank, beat] : ranks_)
    if (beat.connection == connection) lose({.rank = rank, .state = RankState::gone});
}

void HeartbeatTable::lose(const SilentRank& lost) {
  // The rank reported this itself, so the end of its connection, which follows, means nothing more.
  if (lost.state == RankState::failed || lost.state == RankState::followed) ended(lost.rank);
  if (!lost_ || lost_->state == RankState::followed) lost_ = lost;
}

void HeartbeatTable::skip(milliseconds halted) {
  for (auto& [rank, beat] : ranks_) beat.at += halted;
}

std::optional<SilentRank> HeartbeatTable::most_silent(Time now) const {
  if (lost_ || ranks_.empty()) return lost_;
  const auto before = [](const auto& a, const auto& b) { return a.second.at < b.second.at; };
  const auto& [rank, beat] = *std::ranges::min_element(ranks_, before);
  const auto since = std::chrono::duration_cast<milliseconds>(now - beat.at);
  return SilentRank{.rank = rank, .since = std::max(since, milliseconds(0))};
}

}  // namespace penstock::dist
