// Mean keys cached between upcyclings: the same bits, one entry per model, text and options, and
// damaged files.
#include "penstock/convert/upcycle/key_cache.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <filesystem>

#include "tests/convert/upcycle/upcycle_fixture.h"

namespace penstock {
namespace {

class Keys : public testing::UpcycleTest {
 protected:
  static at::Tensor windows(std::int64_t rows, std::int64_t step = 37) {
    return (torch::arange(rows * 16, at::kLong) * step % 250).view({rows, 16});
  }
  std::vector<std::string> files() const {
    std::vector<std::string> out;
    if (std::filesystem::exists(path("keys")))
      for (const auto& entry : std::filesystem::directory_iterator(path("keys")))
        out.push_back(entry.path().string());
    return out;
  }
  static bool equal(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i)
      if (!a[i].equal(b[i])) return false;
    return true;
  }
};

TEST_F(Keys, AreKeptBitForBit) {
  const auto dense = open_model_source(path("dense"));
  const KeyCache cache(real_file_system(), path("keys"));
  const auto computed = mean_keys(*dense, windows(4), {});
  EXPECT_TRUE(equal(cache.keys_of(*dense, windows(4), {}), computed));
  ASSERT_EQ(files().size(), 1u);
  // The cache returns the file's content, even if the test changed it.
  TensorMap other;
  for (std::size_t l = 0; l < 2; ++l) other["layer." + std::to_string(l)] = at::zeros({8, 4});
  save_tensors(real_file_system(), files()[0], other);
  EXPECT_TRUE(cache.keys_of(*dense, windows(4), {})[0].equal(at::zeros({8, 4})));
  EXPECT_TRUE(equal(KeyCache().keys_of(*dense, windows(4), {}), computed));
}

TEST_F(Keys, AreOfOneModelTextAndOptions) {
  testing::write_parent(path("other"), testing::tiny_config(4));
  const auto dense = open_model_source(path("dense")), other = open_model_source(path("other"));
  const KeyCache cache(real_file_system(), path("keys"));
  cache.keys_of(*dense, windows(4), {});
  cache.keys_of(*other, windows(4), {});
  cache.keys_of(*dense, windows(4, 41), {});
  cache.keys_of(*dense, windows(4).view({8, 8}), {});
  cache.keys_of(*dense, windows(4), {.after_rope = true});
  cache.keys_of(*dense, windows(4), {.bias = false});
  EXPECT_EQ(files().size(), 6u);
  EXPECT_TRUE(equal(cache.keys_of(*dense, windows(4), {.bias = false}),
                    mean_keys(*dense, windows(4), {.bias = false})));
  EXPECT_EQ(files().size(), 6u);
}

TEST_F(Keys, ADamagedFileIsWrittenAnew) {
  const auto dense = open_model_source(path("dense"));
  const KeyCache cache(real_file_system(), path("keys"));
  const auto computed = cache.keys_of(*dense, windows(4), {});
  std::filesystem::resize_file(files()[0], 20);
  EXPECT_TRUE(equal(cache.keys_of(*dense, windows(4), {}), computed));
  save_tensors(real_file_system(), files()[0], {{"layer.0", at::zeros({8, 4})}});
  EXPECT_TRUE(equal(cache.keys_of(*dense, windows(4), {}), computed));
}

TEST_F(Keys, UpcyclingTakesThem) {
  const auto dense = open_model_source(path("dense"));
  const KeyCache cache(real_file_system(), path("keys"));
  UpcycleOptions how = options("router-upcycling");
  upcycle(*dense, how, real_file_system(), path("first"), cache);
  EXPECT_EQ(files().size(), 1u);
  how.collapsed = true;
  upcycle(*dense, how, real_file_system(), path("second"), cache);
  EXPECT_EQ(files().size(), 1u);
  upcycle(*dense, how, real_file_system(), path("alone"));
  const auto tensors = load_tensors(path("second")), alone = load_tensors(path("alone"));
  for (const auto& [name, tensor] : alone) EXPECT_TRUE(tensor.equal(tensors.at(name))) << name;
}

}  // namespace
}  // namespace penstock
