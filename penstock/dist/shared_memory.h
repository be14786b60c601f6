// Memory that the ranks of one machine share, in place of sockets, for what is large. Who is there,
// and who is late or gone, is still the carrier's to find out.
#pragma once

#include <memory>

#include "penstock/dist/transport.h"

namespace penstock::dist {

/// The carrier's operations, of which all_to_all and large all_gathers go through shared memory:
/// each rank writes what it sends to anonymous files of its own (memfd), the carrier says where it
/// lies, and the others read it there. Where a rank cannot open another's files, as on another
/// machine, the carrier itself. Every rank calls it.
std::shared_ptr<Transport> with_shared_memory(std::shared_ptr<Transport> carrier, int rank,
                                              int size);

}  // namespace penstock::dist
