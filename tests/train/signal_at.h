// A signal in the middle of a run.
#pragma once

#include <unistd.h>

#include <csignal>

#include "tests/base/forwarding_file_system.h"

namespace penstock::testing {

/// A file system that sends the signal to this process when a run writes its `step`-th line of the
/// log.
inline ForwardingFileSystem signal_at(int step, int number) {
  return ForwardingFileSystem([=, lines = 0](const FileSystem::Path& path, Bytes bytes) mutable {
    if (path.filename() == "metrics.jsonl" && ++lines == step) ::kill(::getpid(), number);
    return bytes.size();
  });
}

}  // namespace penstock::testing
