// Writes to connections and pipes whose reader has gone.
#pragma once

namespace penstock {

/// Makes the process ignore SIGPIPE, as Python does. The signal ends a process that writes to a
/// closed connection or pipe, without a message; the write fails instead. A handler that the
/// program has set stays.
void ignore_broken_pipes();

}  // namespace penstock
