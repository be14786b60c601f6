#include "penstock/ops/machine/tensor_memory.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace penstock::ops {
namespace {

constexpr std::uintptr_t kAlignment = 64;  // libtorch's

/// The pointer to malloc's block of some data, stored right before the data.
void*& block_of(void* data) { return static_cast<void**>(data)[-1]; }

void release(void* data) {
  if (data) std::free(block_of(data));
}

/// A tensor's data pointer is also its context, as libtorch's oneDNN requires of an allocator.
class MallocAllocator final : public c10::Allocator {
 public:
  // libtorch 1.13 declares the first allocate(); libtorch 2.6 declares the second and copy_data().
  c10::DataPtr allocate(std::size_t bytes) const { return taken(bytes); }
  c10::DataPtr allocate(std::size_t bytes) { return taken(bytes); }
  void copy_data(void* to, const void* from, std::size_t bytes) const {
    std::memcpy(to, from, bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }

 private:
  static c10::DataPtr taken(std::size_t bytes) {
    void* const data = bytes > 0 ? aligned(bytes) : nullptr;
    return {data, data, &release, c10::DeviceType::CPU};
  }

  /// malloc aligns to 16 bytes, so at least 16 bytes lie between the start of a block and its data.
  /// The pointer to the block fits there.
  static void* aligned(std::size_t bytes) {
    static_assert(alignof(std::max_align_t) >= sizeof(void*));
    const std::size_t whole = bytes + kAlignment;
    void* const block = whole > bytes ? std::malloc(whole) : nullptr;
    // The text is libtorch's, because failure_text() recognises it.
    TORCH_CHECK(block, "DefaultCPUAllocator: can't allocate memory: you tried to allocate ", bytes,
                " bytes");
    const auto from = reinterpret_cast<std::uintptr_t>(block);
    void* const data = reinterpret_cast<void*>(from / kAlignment * kAlignment + kAlignment);
    block_of(data) = block;
    return data;
  }
};

}  // namespace

void align_tensors_in_malloc() {
  // The program never frees the allocator, because tensors may outlive static objects.
  static auto* const allocator = new MallocAllocator;
  c10::SetCPUAllocator(allocator);
}

}  // namespace penstock::ops
