#include "penstock/dist/heartbeat.h"

#include <poll.h>

#include <algorithm>

namespace penstock::dist {
namespace {

using namespace std::chrono_literals;
using Seconds = std::chrono::seconds;

/// The period is short enough for several beats within a short `silence`.
std::chrono::milliseconds period_of(std::chrono::milliseconds silence) {
  return std::clamp<std::chrono::milliseconds>(silence / 5, 10ms, 1000ms);
}

}  // namespace

Heartbeat::Heartbeat(std::shared_ptr<KeyClient> table, int rank, HeartbeatOptions options)
    : table_(std::move(table)),
      rank_(rank),
      options_(std::move(options)),
      period_(period_of(options_.silence)),
      thread_([this] { run(); }) {}

Heartbeat::~Heartbeat() { stop(); }

void Heartbeat::leave() {
  done_ = true;
  stop();
}

void Heartbeat::stop() {
  if (!thread_.joinable()) return;
  wake_.raise();
  thread_.join();
}

std::optional<RankLoss> Heartbeat::lost() const {
  const std::scoped_lock lock(mutex_);
  return lost_;
}

void Heartbeat::run() {
  listen_for_a_loss();
  if (lost()) end_exchanges();
  say_end();
}

void Heartbeat::listen_for_a_loss() {
  try {
    do judge(table_->beat(rank_));
    while (!lost() && next());
  } catch (const TableEnded& end) {
    if (end.silent()) judge(*end.silent());
  } catch (const SilentTable&) {
    lose({.how = RankState::given_up, .silent = std::chrono::ceil<Seconds>(options_.silence)});
    table_->leave_word({.state = RankState::given_up, .since = options_.silence});
  } catch (const std::exception&) {  // it hung up in the middle of an answer, or answers nonsense
    if (options_.needs_table) lose({});
  }
}

bool Heartbeat::next() {
  switch (table_->listen(period_, wake_.descriptor())) {
    case KeyClient::Heard::nothing:
    case KeyClient::Heard::ended:  // the next beat reads its last word
      return true;
    case KeyClient::Heard::woken:
      return false;
    case KeyClient::Heard::hung_up:
      if (options_.needs_table) lose({});
      return false;
  }
  return false;
}

void Heartbeat::judge(const SilentRank& silent) {
  if (!silent.lost() && silent.since <= options_.silence) return;
  const RankState how = silent.lost() ? silent.state : RankState::given_up;
  lose({.rank = silent.rank,
        .how = how,
        .silent = std::chrono::duration_cast<Seconds>(silent.since)});
  if (silent.lost()) return;
  // All ranks have to give up the same rank. The lost rank has to do so too, if it resumes.
  try {
    table_->lose({.rank = silent.rank, .state = how, .since = silent.since});
  } catch (const std::exception&) {  // the others lose whoever keeps the table
  }
}

void Heartbeat::lose(const RankLoss& lost) {
  const std::scoped_lock lock(mutex_);
  lost_ = lost;
}

void Heartbeat::end_exchanges() {
  pollfd watched{wake_.descriptor(), POLLIN, 0};
  const auto woken = [&] { return ::poll(&watched, 1, static_cast<int>(period_.count())) > 0; };
  // Bytes that a rank sent before its end still arrive. Only its unfinished exchanges have to be
  // ended.
  if (lost()->how != RankState::given_up && woken()) return;
  do {
    try {
      options_.lost();
    } catch (const std::exception&) {  // an exchange may begin after the loss, so it comes again
    }
  } while (!woken());
}

void Heartbeat::say_end() noexcept {
  const auto lost = this->lost();
  if (lost && !lost->rank) return;
  try {
    if (done_ || lost)
      table_->end(rank_);
    else
      table_->lose(
          {.rank = rank_, .state = lost_another_ ? RankState::followed : RankState::failed});
  } catch (const std::exception&) {  // whoever kept the table is gone
  }
}

}  // namespace penstock::dist
