#include "penstock/dist/links.h"

#include <sys/socket.h>
#include <sys/stat.h>

#include <chrono>
#include <thread>

#include "penstock/dist/sockets.h"

namespace penstock::dist {
namespace {

/// A transport's thread needs this long to notice that its links have ended.
constexpr std::chrono::milliseconds kTimeToRead{100};

/// The socket's number; 0 if the descriptor is closed.
unsigned long socket_number(int descriptor) {
  struct stat status {};
  return ::fstat(descriptor, &status) == 0 ? status.st_ino : 0;
}

}  // namespace

void Links::watch(const std::function<void()>& connect) {
  const std::set<int> before = connections();
  {
    const std::scoped_lock lock(mutex_);
    before_ = before;
  }
  try {
    connect();
  } catch (...) {
    const std::scoped_lock lock(mutex_);
    before_.reset();
    throw;
  }
  const std::scoped_lock lock(mutex_);
  before_.reset();
  std::erase_if(links_, [](const auto& link) { return socket_number(link.first) != link.second; });
  for (const int descriptor : connections()) {
    if (before.contains(descriptor)) continue;
    watch_machine(descriptor);
    links_[descriptor] = socket_number(descriptor);
  }
}

std::shared_ptr<void> Links::on_cut(std::function<void()> action) {
  const auto out = std::make_shared<Action>(std::move(action));
  const std::scoped_lock lock(mutex_);
  actions_.push_back(out);
  return out;
}

std::list<std::shared_ptr<Links::Action>> Links::actions() {
  const std::scoped_lock lock(mutex_);
  std::list<std::shared_ptr<Action>> out;
  actions_.remove_if([&](const std::weak_ptr<Action>& action) {
    auto held = action.lock();
    if (held) out.push_back(std::move(held));
    return !action.lock();
  });
  return out;
}

void Links::cut() {
  shut();
  const auto told = actions();
  // A transport's thread reads the end of a link only while the waiting thread's buffer exists. If
  // the action made that thread give its buffer up first, the transport's thread would spin.
  if (!told.empty()) std::this_thread::sleep_for(kTimeToRead);
  for (const auto& action : told) (*action)();
}

void Links::shut() {
  const std::scoped_lock lock(mutex_);
  for (const auto& [descriptor, number] : links_)
    if (socket_number(descriptor) == number) ::shutdown(descriptor, SHUT_RDWR);
  if (!before_) return;
  for (const int descriptor : connections())
    if (!before_->contains(descriptor)) ::shutdown(descriptor, SHUT_RDWR);
}

}  // namespace penstock::dist
