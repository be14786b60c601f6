// The TCP connections that a process's groups use for their exchanges. They are kept here so that
// an exchange can be ended when it waits for a rank that will not answer.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>

namespace penstock::dist {

/// A process's links. Thread-safe.
class Links {
 public:
  /// Runs connect() and records every connection that it adds to the process as a link. The
  /// operating system then closes a link if the other machine is lost.
  void watch(const std::function<void()>& connect);
  /// Ends all links, including those that are being made. A thread that waits for bytes from a link
  /// gets an error.
  void cut();
  /// Makes every cut() also call `action`, after the links have ended, as long as the returned
  /// object exists.
  std::shared_ptr<void> on_cut(std::function<void()> action);

 private:
  using Action = std::function<void()>;
  void shut();
  std::list<std::shared_ptr<Action>> actions();

  std::mutex mutex_;
  /// Socket number by descriptor. It shows whether the descriptor's socket was closed meanwhile.
  std::map<int, unsigned long> links_;
  std::optional<std::set<int>> before_;  ///< the connections before watch() made links
  std::list<std::weak_ptr<Action>> actions_;
};

}  // namespace penstock::dist
