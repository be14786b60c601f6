// How many threads to use, from the processor's physical cores and the process's allowed set.
#pragma once

#include <string>

namespace penstock {

/// Physical cores this process may run on (affinity and cgroup quota counted), at least 1.
int physical_cores();
/// The processor's model name, for reports; "unknown processor" where the system does not say.
std::string cpu_name();

}  // namespace penstock
