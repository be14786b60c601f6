// Measures the memory of tensors: the bytes that libtorch's allocator gave this thread.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <cstdint>
#include <memory>

namespace penstock::testing {

/// Counts the bytes that its thread allocates and frees during the object's lifetime.
class AllocatedBytes {
 public:
  AllocatedBytes()
      : count_(std::make_shared<Count>()), guard_(c10::DebugInfoKind::PROFILER_STATE, count_) {}
  /// The largest number of bytes at one time, minus the bytes at the start.
  std::int64_t peak() const { return count_->peak; }

 private:
  // The counts are signed in some versions of libtorch and unsigned in others.
  template <class Method>
  struct Counts;
  template <class Class, class Number>
  struct Counts<void (Class::*)(void*, std::int64_t, Number, Number, c10::Device)> {
    using Type = Number;
  };
  using Number = Counts<decltype(&c10::MemoryReportingInfoBase::reportMemoryUsage)>::Type;

  struct Count : c10::MemoryReportingInfoBase {
    std::int64_t now = 0, peak = 0;
    void reportMemoryUsage(void*, std::int64_t bytes, Number, Number, c10::Device) override {
      now += bytes;
      peak = std::max(peak, now);
    }
    bool memoryProfilingEnabled() const override { return true; }
  };

  std::shared_ptr<Count> count_;
  c10::DebugInfoGuard guard_;
};

}  // namespace penstock::testing
