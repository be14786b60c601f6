#include "penstock/ops/machine/tensor_memory.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <cstdint>
#include <cstdlib>

namespace penstock::ops {
namespace {

constexpr std::uintptr_t kAlignment = 64;  // libtorch's

/// A tensor's context is malloc's block, its data the first aligned address in it.
class MallocAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) const override {
    if (bytes == 0) return {nullptr, nullptr, &std::free, c10::DeviceType::CPU};
    const std::size_t whole = bytes + kAlignment;
    void* const block = whole > bytes ? std::malloc(whole) : nullptr;
    TORCH_CHECK(block, "DefaultCPUAllocator: can't allocate memory: you tried to allocate ", bytes,
                " bytes");
    const auto from = reinterpret_cast<std::uintptr_t>(block);
    void* const data = reinterpret_cast<void*>((from + kAlignment - 1) / kAlignment * kAlignment);
    return {data, block, &std::free, c10::DeviceType::CPU};
  }
};

}  // namespace

void align_tensors_in_malloc() {
  static MallocAllocator allocator;
  c10::SetCPUAllocator(&allocator);
}

}  // namespace penstock::ops
