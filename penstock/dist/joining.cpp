// Constructs a ProcessGroup: ranks arrive and are connected, and groups are split.
#include <ATen/ATen.h>

#include <exception>
#include <optional>

#include "penstock/base/broken_pipe.h"
#include "penstock/dist/arrivals.h"
#include "penstock/dist/group.h"
#include "penstock/dist/group_state.h"
#include "penstock/dist/key_server.h"
#include "penstock/dist/open_files.h"
#include "penstock/dist/shared_memory.h"
#include "penstock/dist/sockets.h"

namespace penstock::dist {
namespace {

/// What a rank says when it arrives: by which protocol it came, and its machine.
std::string arrival_text(const KeyClient& client) {
  return concat(client.by_ipv4() ? "4 " : "6 ", host_name());
}

}  // namespace

void check_transport(int processes) {
  PENSTOCK_CHECK(processes == 1 || has_transport(), processes,
                 " processes: this build trains in one process, since Gloo's headers were missing; "
                 "install libgloo-dev (scripts/setup does) and build again");
}

void ProcessGroup::connect(const std::shared_ptr<KeyClient>& table) {
  state_->address = table->local_address();
  try {
    state_->transport =
        make_transport(table, state_->rank, state_->size, state_->options.timeout, state_->table);
    if (state_->options.shared_memory)
      state_->transport = with_shared_memory(state_->transport, state_->rank, state_->names);
    if (state_->options.wrap)
      state_->transport = state_->options.wrap(state_->title, state_->rank, state_->transport);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    if (state_->table->lost_after_all()) state_->table->check();
    throw LostRank(concat(name(), ": the ranks cannot be connected: ", error.what()));
  }
}

ProcessGroup ProcessGroup::join(const Identity& identity, const GroupOptions& options) {
  ProcessGroup out;
  if (identity.size == 1) return out;
  check_transport(identity.size);
  // Gloo's writes do not suppress SIGPIPE. If a rank is lost, or the reader of this rank's log
  // ends, the write has to fail, so that the rank can name the lost one or go on.
  ignore_broken_pipes();
  raise_open_files();
  try {
    out.meet(identity, options);
  } catch (...) {
    // A thread that is still connecting may hold the table until the timeout for a late rank.
    if (out.state_->table) out.state_->table->end();
    throw;
  }
  return out;
}

void ProcessGroup::leave() const {
  if (state_->table) state_->table->leave();
}

void ProcessGroup::meet(const Identity& identity, const GroupOptions& options) {
  GroupState& state = *state_;
  state.rank = identity.rank;
  state.size = identity.size;
  state.options = options;
  Notices notices(options);
  const auto rank_zero_is_missing = [&] {
    notices.tell([&] {
      const std::string unknown = why_unknown(identity.address);
      if (!unknown.empty()) return concat("MASTER_ADDR = ", identity.address, ": ", unknown);
      return concat("rank 0 has not arrived yet at ", identity.address, ":", identity.port);
    });
  };
  // Ranks 0 and 1 alone report that ranks wait for rank 0 or for its machine's name.
  state.table = std::make_shared<GroupTable>(
      identity, options, identity.rank <= 1 ? rank_zero_is_missing : std::function<void()>());
  state.table->naming_the_lost([&] {
    KeyClient& client = *state.table->client();
    PENSTOCK_CHECK(client.add(concat("arrived/", identity.rank), 1) == 1, "rank ", identity.rank,
                   " is there twice: another process has the same ", identity.source, ", or a job ",
                   "before this one still holds MASTER_PORT = ", identity.port);
    state.table->begin_heartbeat();
    client.set(Arrivals::key_of(state.rank), arrival_text(client));
    Arrivals arrivals(*state.table, state.size, notices, /*tells=*/state.rank == 0);
    learn_names(arrivals);
    connect(state.table->client());
  });
  barrier("start");
  *state.seconds = 0;
}

void ProcessGroup::learn_names(Arrivals& arrivals) {
  GroupState& state = *state_;
  std::string missing;
  bool by_ipv4 = false;
  state.names.clear();
  for (int rank = 0; rank < state.size; ++rank) {
    const auto said = arrivals.wait(rank);
    const std::string host = said ? said->substr(said->find(' ') + 1) : "an unknown machine";
    by_ipv4 = by_ipv4 || (said && said->starts_with("4 "));
    state.names.push_back(concat("rank ", rank, " on ", host));
    if (!said) missing += concat(missing.empty() ? "" : ", ", rank);
  }
  // The other ranks measure the time from their own start, and also name the missing ranks.
  const std::string why = missing.empty() ? "" : state.table->why_missing();
  if (!missing.empty()) state.table->leave();
  PENSTOCK_CHECK(missing.empty(), "of ", state.size, " ranks these did not arrive in ",
                 state.options.start_timeout.count(), " s: ", missing, "; were they started?", why);
  state.table->set_names(state.names);
  if (by_ipv4) state.table->come_by_ipv4();
}

ProcessGroup ProcessGroup::split(const std::string& axis, int color,
                                 std::optional<std::chrono::seconds> timeout) const {
  if (size() == 1) return *this;
  const at::Tensor colors = all_gather(at::full({1}, color, at::kLong));
  ProcessGroup out;
  GroupState& state = *out.state_;
  state.title = concat(state_->title, "/", axis, "=", color);
  state.options = state_->options;
  state.options.timeout = timeout.value_or(state.options.timeout);
  state.seconds = state_->seconds;
  state.table = state_->table;
  state.names.clear();
  for (int other = 0; other < size(); ++other) {
    if (colors[other].item<std::int64_t>() != color) continue;
    if (other == rank()) state.rank = static_cast<int>(state.names.size());
    state.names.push_back(name(other));
  }
  state.size = static_cast<int>(state.names.size());
  std::optional<KeyServer> server;  // only until all are connected
  if (rank() == 0) server.emplace(state_->address, 0);
  const std::string address = broadcast_bytes(state_->address);
  const std::string port = broadcast_bytes(server ? std::to_string(server->port()) : "");
  if (state.size > 1)
    state.table->naming_the_lost([&] {
      out.connect(
          std::make_shared<KeyClient>(address, std::stoi(port), state.options.start_timeout,
                                      state.table->client_options(concat(axis, "/", color, "/"))));
    });
  barrier("split " + axis);
  return out;
}

}  // namespace penstock::dist
