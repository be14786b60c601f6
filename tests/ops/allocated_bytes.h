// What tensors take of memory, measured: the bytes that libtorch's allocator gave this thread.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <cstdint>
#include <memory>

namespace penstock::testing {

/// Counts what is allocated and freed while it lives, by the thread that made it.
class AllocatedBytes {
 public:
  AllocatedBytes()
      : count_(std::make_shared<Count>()), guard_(c10::DebugInfoKind::PROFILER_STATE, count_) {}
  /// The most that was there at a time, over what there was when this began.
  std::int64_t peak() const { return count_->peak; }

 private:
  // The counts are signed in one libtorch and unsigned in another.
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
