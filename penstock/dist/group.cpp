#include "penstock/dist/group.h"

#include <torch/types.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <numeric>

#include "penstock/base/checksum.h"
#include "penstock/base/failure_text.h"
#include "penstock/base/file_system.h"
#include "penstock/base/stopwatch.h"
#include "penstock/dist/collectives.h"
#include "penstock/dist/group_state.h"
#include "penstock/dist/group_table.h"
#include "penstock/dist/pieces.h"
#include "penstock/dist/transport.h"

namespace penstock::dist {
namespace {

using Counts = std::vector<std::int64_t>;

at::Tensor as_bytes(const at::Tensor& values) { return dist::as_bytes(Pieces{values})[0]; }

std::vector<Pieces> as_bytes(const std::vector<Pieces>& by_rank) {
  std::vector<Pieces> out;
  for (const Pieces& pieces : by_rank) out.push_back(dist::as_bytes(pieces));
  return out;
}

/// Splits consecutive rows into the rows of each rank.
std::vector<Pieces> by_rank(const at::Tensor& rows, std::span<const std::int64_t> counts) {
  std::vector<Pieces> out;
  for (const at::Tensor& of_rank : rows.split_with_sizes({counts.data(), counts.size()}))
    out.push_back({of_rank});
  return out;
}

std::int64_t sum(std::span<const std::int64_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

/// A rank's text of at most `capacity` bytes, as its length and its bytes. A longer text is only
/// its length.
at::Tensor framed(const std::string& text, std::int64_t capacity) {
  const auto length = static_cast<std::int64_t>(text.size());
  at::Tensor out = at::zeros({static_cast<std::int64_t>(sizeof length) + capacity}, at::kByte);
  auto* bytes = out.data_ptr<std::uint8_t>();
  std::memcpy(bytes, &length, sizeof length);
  if (length <= capacity) std::memcpy(bytes + sizeof length, text.data(), text.size());
  return out;
}

std::int64_t length_in(const at::Tensor& frame) {
  std::int64_t out = 0;
  std::memcpy(&out, frame.data_ptr<std::uint8_t>(), sizeof out);
  return out;
}

std::string text_in(const at::Tensor& frame) {
  const auto* text = reinterpret_cast<const char*>(frame.data_ptr<std::uint8_t>());
  return {text + sizeof(std::int64_t), static_cast<std::size_t>(length_in(frame))};
}

}  // namespace

ProcessGroup::ProcessGroup() : state_(std::make_shared<GroupState>()) {}

int ProcessGroup::rank() const { return state_->rank; }
int ProcessGroup::size() const { return state_->size; }
double ProcessGroup::seconds() const { return *state_->seconds; }
double ProcessGroup::own_seconds() const { return state_->own_seconds; }
const std::shared_ptr<GroupTable>& ProcessGroup::table() const { return state_->table; }
void ProcessGroup::fail_together() const { state_->failed_together = true; }
bool ProcessGroup::failed_together() const { return state_->failed_together; }

const std::string& ProcessGroup::address() const { return state_->address; }

std::string ProcessGroup::name(int rank) const {
  return state_->names.at(static_cast<std::size_t>(rank));
}

template <class Action>
void ProcessGroup::operate(const char* what, const at::Tensor& values, const Action& action,
                           bool alike) const {
  PENSTOCK_ASSERT(values.is_contiguous() && values.device().is_cpu(), what);
  if (state_->lost) throw LostRank(concat(name(), " has lost another rank before ", what));
  if (state_->table->lost()) lose(what, "");
  PENSTOCK_ASSERT(!state_->under_way, what, " while rows are under way");
  const Stopwatch watch;
  try {
    if (state_->options.check && alike) check_alike(what, values);
    action(*state_->transport);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    if (!memory_ran_out(error)) lose(what, failure_text(error));
    state_->lost = true;
    throw FailedRank(name(), error);
  }
  const double taken = watch.seconds();
  *state_->seconds += taken;
  state_->own_seconds += taken;
}

void ProcessGroup::lose(const char* what, const std::string& reason) const {
  state_->lost = true;
  state_->table->lose_another();
  if (const auto who = state_->table->lost_after_all())
    throw LostRank(concat(name(), " lost ", *who, ", in ", what));
  throw LostRank(concat(name(), " lost another rank in ", what, ": ", reason));
}

void ProcessGroup::check_alike(const char* what, const at::Tensor& values) const {
  const std::string mine = concat(what, " of ", values.scalar_type(), " ", values.sizes());
  constexpr std::size_t kRoom = 128;
  std::string room = mine.substr(0, kRoom);
  room.resize(kRoom, ' ');
  const at::Tensor sent = at::from_blob(room.data(), {static_cast<std::int64_t>(kRoom)}, at::kByte);
  std::vector<Pieces> received;
  for (int rank = 0; rank < size(); ++rank) received.push_back({at::empty_like(sent)});
  state_->transport->all_gather(received, {sent});
  for (int other = 0; other < size(); ++other) {
    const auto* bytes = received[static_cast<std::size_t>(other)][0].data_ptr<std::uint8_t>();
    std::string theirs(bytes, bytes + kRoom);
    PENSTOCK_CHECK(theirs == room, name(), " calls ", mine, ", ", name(other), " calls ",
                   theirs.substr(0, theirs.find_last_not_of(' ') + 1));
  }
}

void ProcessGroup::all_reduce(const at::Tensor& values, Reduction reduction) const {
  if (size() == 1 || values.numel() == 0) return;
  const char* what = reduction == Reduction::sum ? "all_reduce (sum)" : "all_reduce (max)";
  operate(what, values, [&](Transport& transport) {
    dist::all_reduce(transport, values, reduction, {.rank = rank(), .size = size()});
  });
}

at::Tensor ProcessGroup::all_to_all(const at::Tensor& rows,
                                    std::span<const std::int64_t> send_counts,
                                    std::span<const std::int64_t> counts) const {
  return start_all_to_all(rows, send_counts, counts)();
}

std::function<at::Tensor()> ProcessGroup::start_all_to_all(
    const at::Tensor& rows, std::span<const std::int64_t> send_counts,
    std::span<const std::int64_t> given) const {
  PENSTOCK_ASSERT(std::ssize(send_counts) == size() && sum(send_counts) == rows.size(0));
  if (size() == 1) return [rows] { return rows; };
  Counts counts(given.begin(), given.end());
  if (counts.empty() || state_->options.check) {
    Counts mine(send_counts.begin(), send_counts.end());
    const at::Tensor table = all_gather(at::from_blob(mine.data(), {size()}, at::kLong));
    Counts found;
    for (int from = 0; from < size(); ++from)
      found.push_back(table[from][rank()].item<std::int64_t>());
    for (std::size_t from = 0; from < counts.size(); ++from)
      PENSTOCK_CHECK(counts[from] == found[from], name(), " expects ", counts[from], " rows from ",
                     name(static_cast<int>(from)), ", which sends ", found[from]);
    counts = std::move(found);
  }
  std::vector<std::int64_t> shape = rows.sizes().vec();
  shape[0] = sum(counts);
  at::Tensor out = at::empty(shape, rows.options());
  // Numbers of rows differ between ranks, so only the rest of the shape is compared.
  const auto arrived =
      start_exchange(rows.slice(0, 0, 0), by_rank(out, counts), by_rank(rows, send_counts));
  return [out, arrived] {
    arrived();
    return out;
  };
}

std::function<void()> ProcessGroup::start_all_to_all(const std::vector<Pieces>& received,
                                                     const std::vector<Pieces>& sent) const {
  PENSTOCK_ASSERT(std::ssize(received) == size() && std::ssize(sent) == size());
  return start_exchange(at::empty({0}, at::kByte), received, sent);
}

std::function<void()> ProcessGroup::start_exchange(const at::Tensor& alike,
                                                   const std::vector<Pieces>& received,
                                                   const std::vector<Pieces>& sent) const {
  if (size() == 1) {
    copy(sent[0], received[0]);
    return [] {};
  }
  std::function<void()> arrived;
  operate("all_to_all", alike, [&](Transport& transport) {
    arrived = transport.start_all_to_all(as_bytes(received), as_bytes(sent));
  });
  state_->under_way = true;
  return [group = *this, alike, received, sent, arrived] {  // as_bytes() only points to them
    group.state_->under_way = false;
    group.operate(
        "all_to_all", alike, [&](Transport&) { arrived(); }, /*alike=*/false);
  };
}

at::Tensor ProcessGroup::all_gather(const at::Tensor& mine) const {
  if (size() == 1) return mine.unsqueeze(0);
  std::vector<std::int64_t> shape = mine.sizes().vec();
  shape.insert(shape.begin(), size());
  at::Tensor out = at::empty(shape, mine.options());
  if (mine.numel() == 0) return out;
  gather_into(mine, by_rank(out, Counts(static_cast<std::size_t>(size()), 1)), {mine});
  return out;
}

void ProcessGroup::all_gather(const std::vector<Pieces>& received, const Pieces& mine) const {
  PENSTOCK_ASSERT(std::ssize(received) == size());
  gather_into(at::empty({0}, at::kByte), received, mine);
}

void ProcessGroup::gather_into(const at::Tensor& alike, const std::vector<Pieces>& received,
                               const Pieces& mine) const {
  if (size() == 1) return copy(mine, received[0]);
  operate("all_gather", alike,
          [&](Transport& transport) { transport.all_gather(as_bytes(received), as_bytes(mine)); });
}

at::Tensor ProcessGroup::reduce_scatter(const at::Tensor& rows,
                                        std::span<const std::int64_t> counts) const {
  if (size() == 1) return rows;
  const std::int64_t mine = counts[static_cast<std::size_t>(rank())];
  const at::Tensor received =
      all_to_all(rows, counts, Counts(static_cast<std::size_t>(size()), mine));
  at::Tensor out = received.narrow(0, 0, mine).clone();
  for (int from = 1; from < size(); ++from) out.add_(received.narrow(0, from * mine, mine));
  return out;
}

void ProcessGroup::broadcast(const at::Tensor& values, int root) const {
  if (size() == 1 || values.numel() == 0) return;
  operate("broadcast", values, [&](Transport& transport) {
    dist::broadcast(transport, as_bytes(values), root, {.rank = rank(), .size = size()});
  });
}

void ProcessGroup::send(const at::Tensor& values, int to) const { start_send(values, to)(); }

std::function<void()> ProcessGroup::start_send(const at::Tensor& values, int to) const {
  PENSTOCK_ASSERT(to >= 0 && to < size() && to != rank());
  if (values.numel() == 0) return [] {};
  std::function<void()> sent;
  const auto start = [&](Transport& transport) {
    sent = transport.start_send(as_bytes(values), to);
  };
  operate("send", values, start, /*alike=*/false);
  return [group = *this, values, sent] {
    group.operate(
        "send", values, [&](Transport&) { sent(); }, /*alike=*/false);
  };
}

void ProcessGroup::receive(const at::Tensor& values, int from) const {
  PENSTOCK_ASSERT(from >= 0 && from < size() && from != rank());
  if (values.numel() == 0) return;
  operate(
      "receive", values, [&](Transport& transport) { transport.receive(as_bytes(values), from); },
      /*alike=*/false);
}

at::Tensor ProcessGroup::shared_bytes(std::int64_t bytes) const {
  at::Tensor out;
  if (size() > 1)
    operate("shared_bytes", at::empty({0}, at::kByte),
            [&](Transport& transport) { out = transport.shared_bytes(bytes); });
  return out;
}

void ProcessGroup::barrier(const std::string& place) const {
  if (size() == 1) return;
  const auto mine = static_cast<std::int64_t>(xxh64(bytes_of(place)));
  const at::Tensor all = all_gather(at::full({1}, mine, at::kLong));
  for (int other = 0; other < size(); ++other)
    PENSTOCK_CHECK(all[other].item<std::int64_t>() == mine, name(), " waits at '", place, "', ",
                   name(other), " elsewhere");
}

std::vector<std::string> ProcessGroup::gather(const std::string& mine) const {
  if (size() == 1) return {mine};
  at::Tensor all = all_gather(framed(mine, state_->capacity.bytes()));
  std::int64_t longest = 0;
  for (const at::Tensor& frame : all.unbind()) longest = std::max(longest, length_in(frame));
  if (longest > state_->capacity.bytes()) all = all_gather(framed(mine, longest));
  state_->capacity.add(longest);
  std::vector<std::string> out;
  for (const at::Tensor& frame : all.unbind()) out.push_back(text_in(frame));
  return out;
}

std::string ProcessGroup::broadcast_bytes(const std::string& mine, int root) const {
  if (size() == 1) return mine;
  at::Tensor length = at::full({1}, static_cast<std::int64_t>(mine.size()), at::kLong);
  broadcast(length, root);
  std::string out = mine;
  out.resize(static_cast<std::size_t>(length.item<std::int64_t>()));
  broadcast(at::from_blob(out.data(), {static_cast<std::int64_t>(out.size())}, at::kByte), root);
  return out;
}

}  // namespace penstock::dist
