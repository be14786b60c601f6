#include "penstock/dist/heartbeat.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>

namespace penstock::dist {
namespace {

using namespace std::chrono_literals;
using Seconds = std::chrono::seconds;

/// Several beats fit into a short silence.
std::chrono::milliseconds period_of(std::chrono::milliseconds silence) {
  return std::clamp<std::chrono::milliseconds>(silence / 5, 10ms, 1000ms);
}

}  // namespace

Heartbeat::Heartbeat(std::shared_ptr<KeyClient> table, int rank, HeartbeatOptions options)
    : table_(std::move(table)),
      rank_(rank),
      options_(std::move(options)),
      period_(period_of(options_.silence)),
      wake_(::eventfd(0, EFD_CLOEXEC)),
      thread_([this] { run(); }) {}

Heartbeat::~Heartbeat() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wake_, &one, sizeof one);
  thread_.join();
  ::close(wake_);
}

std::optional<Lost> Heartbeat::lost() const {
  const std::scoped_lock lock(mutex_);
  return lost_;
}

void Heartbeat::run() {
  try {
    do beat();
    while (!lost() && next());
    if (!lost()) return;
  } catch (const TableEnded& end) {
    if (end.silent()) judge(*end.silent());
    if (!lost()) return;
  } catch (const SilentTable&) {
    lose({.rank = std::nullopt, .silent = std::chrono::ceil<Seconds>(options_.silence)});
  } catch (const Error&) {  // it hung up in the middle of an answer
    if (!options_.needs_table) return;
    lose({.rank = std::nullopt, .silent = std::nullopt});
  }
  // An exchange may begin after the loss: links are made in several steps.
  pollfd watched{wake_, POLLIN, 0};
  do options_.lost();
  while (::poll(&watched, 1, static_cast<int>(period_.count())) <= 0);
  if (const auto found = lost(); found && found->rank) say_end();
}

bool Heartbeat::next() {
  switch (table_->listen(period_, wake_)) {
    case KeyClient::Heard::nothing:
    case KeyClient::Heard::ended:  // the next beat reads its last word
      return true;
    case KeyClient::Heard::woken:
      say_end();
      return false;
    case KeyClient::Heard::hung_up:
      if (options_.needs_table) lose({.rank = std::nullopt, .silent = std::nullopt});
      return false;
  }
  return false;
}

void Heartbeat::beat() { judge(table_->beat(rank_)); }

void Heartbeat::judge(const SilentRank& silent) {
  if (silent.rank == rank_) return;
  if (!silent.since)
    lose({.rank = silent.rank, .silent = std::nullopt});
  else if (*silent.since > options_.silence)
    lose({.rank = silent.rank, .silent = std::chrono::duration_cast<Seconds>(*silent.since)});
}

void Heartbeat::lose(const Lost& lost) {
  const std::scoped_lock lock(mutex_);
  lost_ = lost;
}

void Heartbeat::say_end() noexcept {
  try {
    table_->end(rank_);
  } catch (const std::exception&) {  // whoever kept the table is gone
  }
}

}  // namespace penstock::dist
