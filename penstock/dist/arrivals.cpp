#include "penstock/dist/arrivals.h"

#include <algorithm>

namespace penstock::dist {
namespace {

using Clock = std::chrono::steady_clock;
/// How long one query of the table waits before the heartbeat is checked.
constexpr std::chrono::milliseconds kAskFor{500};

}  // namespace

Notices::Notices(const GroupOptions& options) : options_(options) {
  const auto now = Clock::now();
  end_ = now + options.start_timeout;
  due_ = now + options.waiting_after;
}

Notices::Time Notices::next() const { return options_.waiting ? std::min(end_, due_) : end_; }

void Notices::tell(const std::function<std::string()>& missing) {
  const auto now = Clock::now();
  if (!options_.waiting || now < due_ || now >= end_) return;
  due_ += options_.waiting_every;
  const std::string text = missing();
  const auto left = std::chrono::duration_cast<std::chrono::seconds>(end_ - now);
  if (!text.empty()) options_.waiting(concat(text, "; waiting up to ", left.count(), " s more"));
}

Arrivals::Arrivals(const GroupTable& table, int size, Notices notices, bool tells)
    : table_(table), size_(size), notices_(notices), tells_(tells) {}

std::string Arrivals::key_of(int rank) { return concat("host/", rank); }

std::optional<std::string> Arrivals::wait(int rank) {
  while (true) {
    const auto until = tells_ ? notices_.next() : notices_.end();
    const auto left = std::chrono::ceil<KeyClient::Milliseconds>(until - Clock::now());
    const auto said =
        table_.client()->wait(key_of(rank), std::clamp(left, KeyClient::Milliseconds(0), kAskFor));
    if (said || Clock::now() >= notices_.end()) return said;
    table_.check();
    if (tells_) notices_.tell([&] { return missing(); });
  }
}

std::string Arrivals::missing() const {
  std::string ranks;
  for (int rank = 0; rank < size_; ++rank)
    if (!table_.client()->get(key_of(rank))) ranks += concat(ranks.empty() ? "" : ", ", rank);
  if (ranks.empty()) return "";
  return concat("of ", size_, " ranks these have not arrived yet: ", ranks, table_.why_missing());
}

}  // namespace penstock::dist
