#include "penstock/dist/links.h"

#include <sys/socket.h>
#include <sys/stat.h>

#include "penstock/dist/sockets.h"

namespace penstock::dist {
namespace {

/// 0 where the descriptor is closed.
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

void Links::cut() {
  const std::scoped_lock lock(mutex_);
  for (const auto& [descriptor, number] : links_)
    if (socket_number(descriptor) == number) ::shutdown(descriptor, SHUT_RDWR);
  if (!before_) return;
  for (const int descriptor : connections())
    if (!before_->contains(descriptor)) ::shutdown(descriptor, SHUT_RDWR);
}

}  // namespace penstock::dist
