#include "penstock/dist/links.h"

#include <sys/socket.h>
#include <sys/stat.h>

#include "penstock/dist/sockets.h"

namespace penstock::dist {
namespace {

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
  for (const auto& action : actions()) (*action)();
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
