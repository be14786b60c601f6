// Process-wide state of the operators: counts of the implementations that ran (for tests), a switch
// to the references (for experiments), threads and memory.
// PENSTOCK_VERBOSE=1 prints each operator's first choice per problem shape and why others declined.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace penstock::ops {

/// How often each implementation ran since start or reset, by "<operator>/<implementation>"
/// ("linear/onednn", "linear.backward/onednn", "linear/reference"). Thread-safe.
std::map<std::string, std::int64_t> dispatch_counts();
void reset_dispatch_counts();

/// Whether this library was built with a kernel library: "onednn" or "xsmm".
bool built_with(const std::string& kernels);

/// Restricts every operator of the process to its reference during its life; for tests and benches.
class ReferenceOnly {
 public:
  ReferenceOnly();
  ~ReferenceOnly();
  ReferenceOnly(const ReferenceOnly&) = delete;
  ReferenceOnly& operator=(const ReferenceOnly&) = delete;
};

/// Does nothing. If a program uses operators only by their dispatcher names, it calls this function
/// so that the linker keeps the library that registers them.
void anchor();

/// Sets the number of threads of libtorch and of the fast kernels; 0: the number of physical cores.
/// Returns the number. Throws Error above eight threads a core (16 on one core), because more
/// threads stall the machine.
int set_threads(int threads);

/// Makes the C library's allocator keep freed memory instead of returning it to the system. Each
/// step's large tensors then reuse pages. Fresh pages cost a page fault per 4 KiB, which is a tenth
/// to a third of an operator's time. Call it at a program's start. No effect if malloc is not
/// glibc's.
void keep_freed_memory();

}  // namespace penstock::ops
