#include "penstock/dist/arrivals.h"

#include <algorithm>

namespace penstock::dist {

Arrivals::Arrivals(KeyClient& table, int size, const GroupOptions& options)
    : table_(table), size_(size), options_(options) {
  const auto now = std::chrono::steady_clock::now();
  end_ = now + options.start_timeout;
  notice_ = now + options.waiting_after;
}

std::string Arrivals::key_of(int rank) { return concat("host/", rank); }

std::optional<std::string> Arrivals::wait(int rank) {
  while (true) {
    const Time until = options_.waiting ? std::min(end_, notice_) : end_;
    const auto left =
        std::chrono::ceil<KeyClient::Milliseconds>(until - std::chrono::steady_clock::now());
    auto said = table_.wait(key_of(rank), std::max(left, KeyClient::Milliseconds(0)));
    if (said || until == end_) return said;
    notice_ += options_.waiting_every;
    tell();
  }
}

void Arrivals::tell() const {
  std::string missing;
  for (int rank = 0; rank < size_; ++rank)
    if (!table_.get(key_of(rank))) missing += concat(missing.empty() ? "" : ", ", rank);
  const auto left =
      std::chrono::duration_cast<std::chrono::seconds>(end_ - std::chrono::steady_clock::now());
  if (!missing.empty())
    options_.waiting(concat("of ", size_, " ranks these have not arrived yet: ", missing,
                            "; waiting up to ", left.count(), " s more"));
}

}  // namespace penstock::dist
