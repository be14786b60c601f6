#include "penstock/dist/deal.h"

#include "penstock/dist/group_table.h"

namespace penstock::dist {
namespace {

constexpr const char* kTaken = "taken";
constexpr std::chrono::seconds kConnect{120};

}  // namespace

Deal::Deal(const ProcessGroup& group, std::int64_t count) : count_(count), keeper_(group.name(0)) {
  if (group.size() == 1) return;
  if (group.rank() == 0) server_.emplace(group.address(), 0);
  const std::string address = group.broadcast_bytes(group.address());
  const std::string port = group.broadcast_bytes(server_ ? std::to_string(server_->port()) : "");
  table_ = std::make_unique<KeyClient>(address, std::stoi(port), kConnect,
                                       group.table()->client_options());
}

std::optional<std::int64_t> Deal::next() {
  std::int64_t number = taken_;
  if (!table_) {
    ++taken_;
  } else {
    try {
      number = table_->add(kTaken, 1) - 1;
    } catch (const Error&) {
      throw LostRank(keeper_ + ", which says what comes next, is gone");
    }
  }
  return number < count_ ? std::optional(number) : std::nullopt;
}

void Deal::close() {
  if (table_)
    table_->add(kTaken, count_);
  else
    taken_ = count_;
}

}  // namespace penstock::dist
