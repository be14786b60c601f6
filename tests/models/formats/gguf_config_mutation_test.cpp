// Keys and types of a GGUF file, damaged at random: the file is refused, or it describes a model
// whose tensors it holds. PENSTOCK_MUTATIONS=100000 tries more of them.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>

#include "penstock/base/error.h"
#include "penstock/convert/export/export_model.h"
#include "penstock/io/gguf.h"
#include "penstock/models/formats/gguf_source.h"
#include "tests/base/temp_directory.h"
#include "tests/convert/small_models.h"
#include "tests/models/formats/rewritten_gguf.h"

namespace penstock {
namespace {

using testing::TempDirectory;

/// A value that a key may get in a damaged file.
GgufValue other_value(std::mt19937_64& draw) {
  static constexpr std::array<std::uint32_t, 14> kIntegers = {
      0, 1, 2, 3, 5, 8, 16, 31, 64, 256, 65536, 1u << 24, 1u << 31, 0xffffffffu};
  static constexpr std::array<float, 8> kNumbers = {0,
                                                    -1,
                                                    1e-45f,
                                                    0.5f,
                                                    1e30f,
                                                    std::numeric_limits<float>::infinity(),
                                                    -std::numeric_limits<float>::infinity(),
                                                    std::numeric_limits<float>::quiet_NaN()};
  switch (draw() % 8) {
    case 0:
      return GgufValue::f32(kNumbers[draw() % kNumbers.size()]);
    case 1:
      return {GgufType::kU64, std::uint64_t{draw()}};
    case 2:
      return {GgufType::kI32, -static_cast<std::int64_t>(draw() % 3)};
    case 3:
      return draw() % 2 == 0 ? GgufValue::string("none") : GgufValue::strings({});
    default:
      return GgufValue::u32(kIntegers[draw() % kIntegers.size()]);
  }
}

/// The metadata with one or two values replaced or removed.
GgufMetadata damaged(GgufMetadata metadata, std::mt19937_64& draw) {
  for (auto changes = draw() % 2 + 1; changes > 0; --changes) {
    const auto at = metadata.begin() + static_cast<std::ptrdiff_t>(draw() % metadata.size());
    if (draw() % 6 == 0)
      metadata.erase(at);
    else
      at->second = other_value(draw);
  }
  return metadata;
}

TEST(GgufSource, DamagedKeysAreRefusedOrDescribeTheTensors) {
  const char* const asked = std::getenv("PENSTOCK_MUTATIONS");
  const std::int64_t runs = asked ? std::atoll(asked) : 200;
  const TempDirectory temp;
  const std::string model = temp.path("model"), whole = temp.path("m.gguf"),
                    path = temp.path("damaged.gguf");
  testing::write_random_model(testing::small_moe(), model);
  export_model({.model = model, .out = whole, .format = ExportFormat::kGguf, .check_tokens = 0});
  const GgufFile file(whole);
  std::mt19937_64 draw(11);
  std::int64_t described = 0;
  for (std::int64_t i = 0; i < runs; ++i) {
    testing::rewrite_gguf(file, damaged(file.metadata(), draw), path);
    try {
      const GgufSource source(path);
      for (const std::string& name : source.names())
        EXPECT_EQ(source.tensor(name).sizes(), at::IntArrayRef(source.shape(name))) << name;
      ++described;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("damaged.gguf: "), std::string::npos)
          << error.what();
    }
  }
  EXPECT_GT(described, 0);
}

}  // namespace
}  // namespace penstock
