#include "penstock/dist/beats.h"

#include <algorithm>

namespace penstock::dist {

void Beats::heard(int rank, int connection, Time now) {
  ranks_[rank] = {.at = now, .connection = connection};
}

void Beats::ended(int rank) { ranks_.erase(rank); }

void Beats::hung_up(int connection) {
  for (auto& [rank, beat] : ranks_)
    if (beat.connection == connection) beat.connection = -1;
}

void Beats::skip(std::chrono::milliseconds halted) {
  for (auto& [rank, beat] : ranks_) beat.at += halted;
}

std::optional<SilentRank> Beats::most_silent(Time now) const {
  if (ranks_.empty()) return std::nullopt;
  const auto before = [](const auto& a, const auto& b) {
    const bool a_gone = a.second.connection < 0, b_gone = b.second.connection < 0;
    return a_gone != b_gone ? a_gone : a.second.at < b.second.at;
  };
  const auto& [rank, beat] = *std::ranges::min_element(ranks_, before);
  if (beat.connection < 0) return SilentRank{.rank = rank};
  const auto since = std::chrono::duration_cast<std::chrono::milliseconds>(now - beat.at);
  return SilentRank{.rank = rank, .since = std::max(since, std::chrono::milliseconds(0))};
}

}  // namespace penstock::dist
