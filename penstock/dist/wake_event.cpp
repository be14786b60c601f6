#include "penstock/dist/wake_event.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "penstock/base/error.h"
#include "penstock/dist/open_files.h"
#include "penstock/dist/sockets.h"

namespace penstock::dist {

WakeEvent::WakeEvent() : descriptor_(::eventfd(0, EFD_CLOEXEC)) {
  PENSTOCK_CHECK(descriptor_ >= 0, "the threads of a rank cannot be woken: ",
                 too_many_open_files(errno) ? open_files_text(errno) : last_error());
}

WakeEvent::~WakeEvent() { ::close(descriptor_); }

void WakeEvent::raise() const {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(descriptor_, &one, sizeof one);
}

}  // namespace penstock::dist
