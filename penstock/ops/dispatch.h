// Counts which implementations ran, for tests, and chooses the implementation in experiments.
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

/// Does nothing. A program that uses operators only by their dispatcher names calls it, so that the
/// linker keeps the library that registers them.
void anchor();

/// Sets the threads of libtorch and of the fast paths; 0 takes the physical cores. Returns the
/// number. Throws Error above eight threads a core (16 on one core), because more stall the
/// machine.
int set_threads(int threads);

/// Makes the C library's allocator keep what is freed instead of returning it to the system. Each
/// step's large tensors then reuse pages; fresh ones cost a page fault per 4 KiB, which is a tenth
/// to a third of an operator's time. For a program's start; no effect where malloc is not glibc's.
void keep_freed_memory();

}  // namespace penstock::ops
