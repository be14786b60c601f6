// Tensors whose memory comes from malloc: aligned, freed and reused.
#include "penstock/ops/machine/tensor_memory.h"

#include <ATen/ATen.h>
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "penstock/base/failure_text.h"

namespace penstock::ops {
namespace {

/// Restores libtorch's allocator at a test's end.
class TensorMemory : public ::testing::Test {
 protected:
  TensorMemory() { align_tensors_in_malloc(); }
  ~TensorMemory() override { c10::SetCPUAllocator(c10::GetDefaultCPUAllocator()); }
};

TEST_F(TensorMemory, IsAlignedAndFreed) {
  for (const std::int64_t floats : {1, 3, 16, 1000, 1000003}) {
    const at::Tensor tensor = at::arange(floats, at::kFloat);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data_ptr()) % 64, 0U) << floats;
    EXPECT_EQ(tensor[floats - 1].item<float>(), static_cast<float>(floats - 1));
  }
  EXPECT_EQ(at::empty({0}).numel(), 0);
  at::Tensor grown = at::ones({4});
  grown.resize_({1 << 20});
  EXPECT_EQ(grown.slice(0, 0, 4).sum().item<float>(), 4);
}

// libtorch's oneDNN allocates and frees its memory through these two functions.
TEST_F(TensorMemory, ServesThoseWhoTakeItWithoutATensor) {
  c10::Allocator& allocator = *c10::GetAllocator(c10::DeviceType::CPU);
  for (const std::size_t bytes : {0, 1, 100, 1 << 20}) {
    void* const data = allocator.raw_allocate(bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data) % 64, 0U);
    if (bytes > 0) std::memset(data, 7, bytes);
    allocator.raw_deallocate(data);
  }
  at::Tensor x = at::linspace(-3, 3, 4096).requires_grad_();
  at::gelu(x).sum().backward();
  EXPECT_NEAR(x.grad()[0].item<float>(), -0.0119, 1e-3);  // Phi(-3) - 3 phi(-3)
  const at::Tensor half = at::ones({64, 64}, at::kBFloat16);
  EXPECT_EQ(at::mm(half, half)[0][0].item<float>(), 64);
}

TEST_F(TensorMemory, SaysThatMemoryRanOut) {
  for (const std::int64_t bytes : {INT64_MAX / 2, INT64_MAX}) {
    try {
      at::empty({bytes}, at::kByte);
      FAIL() << "no error for " << bytes;
    } catch (const std::exception& error) {
      EXPECT_TRUE(memory_ran_out(error)) << error.what();
    }
  }
}

// libtorch's own allocator cuts blocks to an alignment. With the C library of Debian 12, such a
// block is never reused once small blocks occupy the part that was cut off. A sanitizer's malloc
// does not reuse freed memory.
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_F(TensorMemory, IsTakenAgainForTheSameSize) {
  constexpr int kRounds = 40, kSmall = 40;
  std::vector<std::unique_ptr<void, decltype(&std::free)>> small;
  int again = 0;
  for (int i = 0; i < kRounds; ++i) {
    at::Tensor large = at::empty({20000 + 16 * i});  // too small for malloc to map alone
    const void* const address = large.data_ptr();
    for (int j = 0; j < kSmall; ++j) small.emplace_back(std::malloc(16 + 8 * (j % 12)), &std::free);
    large = at::Tensor();
    again += at::empty({20000 + 16 * i}).data_ptr() == address;
  }
  EXPECT_GE(again, kRounds * 9 / 10);
}
#endif

}  // namespace
}  // namespace penstock::ops
