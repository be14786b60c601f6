#include "penstock/dist/work_queue.h"

namespace penstock::dist {
namespace {

constexpr const char* kTaken = "taken";
constexpr std::chrono::seconds kConnect{120};

}  // namespace

WorkQueue::WorkQueue(const ProcessGroup& group, std::int64_t count)
    : count_(count), keeper_name_(group.name(0)), ranks_(group.table()) {
  if (group.size() == 1) return;
  if (group.rank() == 0) server_.emplace(group.address(), 0);
  const std::string address = group.broadcast_bytes(group.address());
  const std::string port = group.broadcast_bytes(server_ ? std::to_string(server_->port()) : "");
  table_ = std::make_unique<KeyClient>(address, std::stoi(port), kConnect,
                                       group.table()->client_options());
}

std::optional<std::int64_t> WorkQueue::next() {
  const std::int64_t number = table_ ? add(1) - 1 : taken_++;
  return number < count_ ? std::optional(number) : std::nullopt;
}

void WorkQueue::close() {
  if (table_)
    add(count_);
  else
    taken_ = count_;
}

std::int64_t WorkQueue::add(std::int64_t value) {
  try {
    return table_->add(kTaken, value);
  } catch (const LostTable&) {
    ranks_->lose_another();
    if (ranks_->lost_after_all()) ranks_->check();
    throw LostRank(keeper_name_ + ", which says what comes next, is gone");
  }
}

}  // namespace penstock::dist
