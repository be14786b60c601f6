#include "penstock/dist/group_table.h"

#include <sys/socket.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "penstock/base/error.h"
#include "penstock/base/loopback.h"
#include "penstock/dist/job_name.h"

namespace penstock::dist {
namespace {

/// Keys of the table: the number of the job's ranks, its name, and the rank of another job that
/// came last.
constexpr const char *kSize = "size", *kJob = "job", *kRefused = "refused";

std::string job_text(const std::string& name) {
  return name.empty() ? "no job with a name" : concat("job '", name, "'");
}

}  // namespace

KeyValues values_of_job(int ranks, const std::string& name) {
  return {{kSize, std::to_string(ranks)}, {kJob, name}};
}

GroupTable::GroupTable(const Identity& identity, const GroupOptions& options,
                       const std::function<void()>& connecting)
    : identity_(identity), silence_(options.silence) {
  const std::string job = job_name(identity, process_environment());
  if (identity.hosts_store)
    server_.emplace(identity.address, identity.port, values_of_job(identity.size, job),
                    options.start_timeout, connecting);
  KeyClientOptions client = client_options();
  client.connecting = connecting;
  client_ = std::make_shared<KeyClient>(identity.address, identity.port, options.start_timeout,
                                        std::move(client));
  check_counts_alike();
  check_same_job(job);
}

GroupTable::~GroupTable() { end(); }

void GroupTable::check_counts_alike() {
  const std::string mine =
      concat("rank ", identity_.rank, " on ", host_name(), " counts ", identity_.size, " ranks");
  const auto theirs = client_->get(kSize);
  PENSTOCK_CHECK(theirs, "no ranks meet at ", identity_.address, ":", identity_.port,
                 ": another table of values listens there; choose another MASTER_PORT");
  if (*theirs == std::to_string(identity_.size)) return;
  client_->set(kRefused, mine);
  fail(mine, " (", identity_.source, "), and the job at ", identity_.address, ":", identity_.port,
       " has ", *theirs,
       "; give all ranks of a job the same number, and each job its own "
       "MASTER_PORT");
}

void GroupTable::check_same_job(const std::string& job) {
  const std::string theirs = client_->get(kJob).value_or("");
  if (theirs == job) return;
  const std::string mine =
      concat("rank ", identity_.rank, " on ", host_name(), " is of ", job_text(job));
  client_->set(kRefused, mine);
  fail(mine, ", and the ranks at ", identity_.address, ":", identity_.port, " are of ",
       job_text(theirs),
       "; give each job its own MASTER_PORT, and all ranks of a job the same PENSTOCK_JOB or none");
}

void GroupTable::come_by_ipv4() {
  constexpr std::chrono::seconds kConnects{10};
  if (client_->by_ipv4()) return;
  KeyClientOptions options = client_options();
  options.family = AF_INET;
  try {
    client_ = std::make_shared<KeyClient>(identity_.address, identity_.port, kConnects,
                                          std::move(options));
  } catch (const LostRank&) {
    throw;
  } catch (const Error& error) {
    fail("rank ", identity_.rank, " reached ", identity_.address,
         " by IPv6 and other ranks by IPv4, but all have to use the same (", error.what(),
         "); give rank 0's address of IPv4 or of IPv6 as MASTER_ADDR on every machine");
  }
}

std::string GroupTable::why_missing() const {
  const auto refused = client_->get(kRefused);
  return (refused ? concat("; ", *refused, " and was refused") : "") + loopback_notice();
}

std::string GroupTable::loopback_notice() const {
  if (identity_.local_size == identity_.size) return "";  // no other machine has to
  const std::string here = client_->local_address();
  const std::string& named = identity_.address;
  if (!is_loopback(here) || is_loopback(named)) return "";
  return concat("; MASTER_ADDR = ", named,
                " leads to the loopback on this machine, which no other machine reaches: give the "
                "address of a network card");
}

void GroupTable::leave() {
  if (heartbeat_) heartbeat_->leave();
}

void GroupTable::lose_another() {
  if (heartbeat_) heartbeat_->lost_another();
}

void GroupTable::end() {
  if (heartbeat_) heartbeat_->stop();
  server_.reset();
}

KeyClientOptions GroupTable::client_options(std::string prefix) const {
  // The launcher's table is silent while a user has stopped the launcher, which harms no rank.
  return {.prefix = std::move(prefix),
          .patience = identity_.launched ? std::chrono::seconds(0) : silence_,
          .connecting = [this] { check(); }};
}

void GroupTable::begin_heartbeat() {
  if (silence_.count() == 0) return;
  auto own =
      std::make_shared<KeyClient>(identity_.address, identity_.port, silence_, client_options());
  own->beat(identity_.rank);  // before others can know of this rank
  heartbeat_.emplace(std::move(own), identity_.rank,
                     HeartbeatOptions{.silence = silence_,
                                      .needs_table = !identity_.launched,
                                      .lost = [this] { links_.cut(); }});
}

void GroupTable::set_names(std::vector<std::string> names) { names_ = std::move(names); }

std::string GroupTable::name(const RankLoss& lost) const {
  const int rank = lost.rank.value_or(0);  // who keeps the table
  const auto at = static_cast<std::size_t>(rank);
  return at < names_.size() ? names_[at] : concat("rank ", rank);
}

std::optional<std::string> GroupTable::lost() const {
  const auto found = heartbeat_ ? heartbeat_->lost() : std::nullopt;
  if (!found) return std::nullopt;
  const bool self = found->rank == identity_.rank;
  if (found->how == RankState::given_up && self)
    return concat("the others, which had not heard of it for ", found->silent.count(), " s");
  if (self) return "the others, which lost its connection to the table of ranks";
  if (found->how == RankState::followed) return name(*found) + ", which lost another rank";
  if (found->how == RankState::failed) return name(*found) + ", which failed";
  if (found->how == RankState::gone) return name(*found) + ", which ended without a word";
  return concat(name(*found), ", which has not been heard of for ", found->silent.count(), " s");
}

std::optional<std::string> GroupTable::lost_after_all() const {
  constexpr std::chrono::milliseconds kTwoBeats{2000}, kPause{10};
  const auto end = std::chrono::steady_clock::now() + kTwoBeats;
  while (heartbeat_ && !heartbeat_->lost() && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(kPause);
  return lost();
}

void GroupTable::check() const {
  if (const auto who = lost())
    throw LostRank(concat(name({.rank = identity_.rank}), " lost ", *who));
}

void GroupTable::naming_the_lost(const std::function<void()>& action) const {
  try {
    action();
  } catch (const LostTable&) {
    if (lost_after_all()) check();
    throw;
  }
}

}  // namespace penstock::dist
