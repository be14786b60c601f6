// Shared memory between the ranks of one machine, for large exchanges instead of sockets. The
// wrapped transport, the carrier, still detects which ranks are present, late or gone.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "penstock/dist/transport.h"

namespace penstock::dist {

/// Wraps the carrier so that all_to_all and large all_gathers use shared memory. Each rank writes
/// the bytes that it sends to its own anonymous files (memfd), the carrier tells the others where
/// they are, and the others read them there. shared_bytes() is a file of the first rank. If a rank
/// cannot open another's files, as on another machine, it returns the carrier itself. Every rank
/// calls it.
/// @param rank   this rank's place in the group
/// @param names  of the group's ranks, for messages
std::shared_ptr<Transport> with_shared_memory(std::shared_ptr<Transport> carrier, int rank,
                                              std::vector<std::string> names);

}  // namespace penstock::dist
