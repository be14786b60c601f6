// Records what the groups of a test's ranks carry: the kind of each operation and its bytes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "penstock/base/error.h"
#include "penstock/dist/group_options.h"
#include "penstock/dist/transport.h"

namespace penstock::testing {

/// An operation of one rank. Bytes are by rank of the group; of a message they are the other
/// rank's only.
struct RecordedCall {
  std::string kind;
  std::vector<std::int64_t> sent, received;
  int peer = -1;  ///< the other rank of a message
  friend bool operator==(const RecordedCall&, const RecordedCall&) = default;
};
using RecordedCalls = std::vector<RecordedCall>;
/// By the group's title and the rank's place in the group, in the rank's order.
using RecordedGroups = std::map<std::string, std::map<int, RecordedCalls>>;

/// Carries everything by another transport, and records it.
class RecordingTransport : public dist::Transport {
 public:
  RecordingTransport(std::shared_ptr<dist::Transport> carrier, RecordedCalls& calls)
      : carrier_(std::move(carrier)), calls_(calls) {}
  std::function<void()> start_all_to_all(std::vector<dist::Pieces> received,
                                         std::vector<dist::Pieces> sent) override {
    calls_.push_back({.kind = "all_to_all", .sent = bytes(sent), .received = bytes(received)});
    return carrier_->start_all_to_all(std::move(received), std::move(sent));
  }
  void all_gather(std::vector<dist::Pieces> received, dist::Pieces sent) override {
    calls_.push_back({.kind = "all_gather",
                      .sent = std::vector(received.size(), dist::total_bytes(sent)),
                      .received = bytes(received)});
    carrier_->all_gather(std::move(received), std::move(sent));
  }
  std::function<void()> start_send(at::Tensor values, int to) override {
    calls_.push_back({.kind = "send", .sent = {values.numel()}, .peer = to});
    return carrier_->start_send(std::move(values), to);
  }
  void receive(at::Tensor values, int from) override {
    calls_.push_back({.kind = "receive", .received = {values.numel()}, .peer = from});
    carrier_->receive(std::move(values), from);
  }
  at::Tensor shared_bytes(std::int64_t bytes) override {
    calls_.push_back({.kind = "shared_bytes", .sent = {bytes}});
    return carrier_->shared_bytes(bytes);
  }

 private:
  static std::vector<std::int64_t> bytes(const std::vector<dist::Pieces>& by_rank) {
    std::vector<std::int64_t> out;
    for (const dist::Pieces& pieces : by_rank) out.push_back(dist::total_bytes(pieces));
    return out;
  }

  std::shared_ptr<dist::Transport> carrier_;
  RecordedCalls& calls_;
};

/// Must outlive the groups that it records.
class Recorder {
 public:
  /// For GroupOptions::wrap.
  auto wrap() {
    return [this](const std::string& title, int rank,
                  std::shared_ptr<dist::Transport> transport) -> std::shared_ptr<dist::Transport> {
      const std::scoped_lock lock(mutex_);
      return std::make_shared<RecordingTransport>(std::move(transport), groups_[title][rank]);
    };
  }
  /// REQUIRES: the ranks have ended.
  const RecordedGroups& groups() const { return groups_; }

 private:
  std::mutex mutex_;
  RecordedGroups groups_;
};

/// The rank's collective operations, without messages.
inline RecordedCalls collectives(const RecordedCalls& calls) {
  RecordedCalls out;
  for (const RecordedCall& call : calls)
    if (call.peer < 0) out.push_back(call);
  return out;
}

/// The bytes of a rank's messages to another (kind "send") or from another ("receive").
inline std::vector<std::int64_t> messages(const RecordedCalls& calls, const std::string& kind,
                                          int peer) {
  std::vector<std::int64_t> out;
  for (const RecordedCall& call : calls)
    if (call.kind == kind && call.peer == peer)
      out.push_back(kind == "send" ? call.sent[0] : call.received[0]);
  return out;
}

/// Where the ranks of a group do not call the same operations in the same order, or a rank expects
/// other bytes than another sends: one text for each pair of ranks.
inline std::vector<std::string> differences(const RecordedGroups& groups) {
  std::vector<std::string> out;
  const auto differ = [](const RecordedCalls& one, int a, const RecordedCalls& other, int b) {
    const auto sender = static_cast<std::size_t>(a), receiver = static_cast<std::size_t>(b);
    const RecordedCalls ours = collectives(one), theirs = collectives(other);
    if (ours.size() != theirs.size()) return true;
    for (std::size_t i = 0; i < ours.size(); ++i) {
      if (ours[i].kind != theirs[i].kind) return true;
      if (ours[i].kind == "shared_bytes" ? ours[i].sent != theirs[i].sent
                                         : ours[i].sent[receiver] != theirs[i].received[sender])
        return true;
    }
    return messages(one, "send", b) != messages(other, "receive", a);
  };
  for (const auto& [title, ranks] : groups)
    for (const auto& [a, one] : ranks)
      for (const auto& [b, other] : ranks)
        if (a != b && differ(one, a, other, b))
          out.push_back(concat(title, ": what rank ", a, " sends rank ", b));
  return out;
}

}  // namespace penstock::testing
