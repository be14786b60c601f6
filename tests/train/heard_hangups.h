// The signal of a terminal's end, in tests of programs that may run under nohup.
#pragma once

#include <csignal>

namespace penstock::testing {

/// While it lives, SIGHUP is not ignored, though whoever started the tests may ignore it.
class HeardHangups {
 public:
  HeardHangups() {
    struct sigaction heard = {};
    heard.sa_handler = SIG_DFL;
    sigaction(SIGHUP, &heard, &before_);
  }
  ~HeardHangups() { sigaction(SIGHUP, &before_, nullptr); }
  HeardHangups(const HeardHangups&) = delete;
  HeardHangups& operator=(const HeardHangups&) = delete;

 private:
  struct sigaction before_ = {};
};

}  // namespace penstock::testing
