// Handles writes to connections and pipes whose reader has gone.
#pragma once

namespace penstock {

/// Makes the process ignore SIGPIPE, as Python does. The signal would end a process that writes to
/// a closed connection or pipe, without a message; now the write fails instead. A handler that the
/// program has set is kept.
void ignore_broken_pipes();

}  // namespace penstock
