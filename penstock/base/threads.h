// The number of physical cores that a process may use, and the processor's name.
#pragma once

#include <string>

namespace penstock {

/// The number of physical cores that this process may use, at least 1. Affinity and cgroup quota
/// limit it.
int physical_cores();
/// The processor's model name, for reports; "unknown processor" if the system does not report it.
std::string cpu_name();

}  // namespace penstock
