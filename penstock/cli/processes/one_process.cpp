#include "penstock/cli/processes/one_process.h"

#include "penstock/base/error.h"
#include "penstock/dist/identity.h"

namespace penstock {

void check_one_process(const std::string& command) {
  const dist::Identity identity = dist::identity_from(dist::process_environment());
  PENSTOCK_CHECK(identity.size == 1, "penstock ", command, " is for one process, and by ",
                 identity.source, " this is rank ", identity.rank, " of ", identity.size,
                 "; start it once, without a launcher of several processes");
}

}  // namespace penstock
