// The TCP connections by which the groups of a process exchange, for whoever has to end an exchange
// that waits for a rank which will not answer.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>

namespace penstock::dist {

/// Thread-safe.
class Links {
 public:
  /// What the process is connected by after connect() and was not before are links from then on.
  /// The system is told to give a link up where the other machine is lost.
  void watch(const std::function<void()>& connect);
  /// Ends all links, and those that are being made: who waits for bytes of one gets an error.
  void cut();
  /// Has every cut call `action` too, as long as what is returned lives.
  std::shared_ptr<void> on_cut(std::function<void()> action);

 private:
  using Action = std::function<void()>;
  std::list<std::shared_ptr<Action>> actions();

  std::mutex mutex_;
  /// Socket number by descriptor. It shows whether the descriptor's socket was closed since.
  std::map<int, unsigned long> links_;
  std::optional<std::set<int>> before_;  ///< while links are being made: what was there before
  std::list<std::weak_ptr<Action>> actions_;
};

}  // namespace penstock::dist
