#include "penstock/io/gguf.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "penstock/base/error.h"
#include "penstock/base/half.h"
#include "penstock/io/gguf_writer.h"
#include "penstock/io/q8_0.h"
#include "tests/base/error_of.h"
#include "tests/base/temp_directory.h"

namespace penstock {
namespace {

using testing::TempDirectory;

template <class T>
std::string raw(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}
std::string u32(std::uint32_t value) { return raw(value); }
std::string u64(std::uint64_t value) { return raw(value); }
std::string text(const std::string& value) { return u64(value.size()) + value; }
std::string key(const std::string& name, std::uint32_t type, const std::string& value) {
  return text(name) + u32(type) + value;
}
/// A tensor's entry in the header. The sizes are in the file's order: fastest first.
std::string tensor(const std::string& name, const std::vector<std::uint64_t>& sizes,
                   std::uint32_t type, std::uint64_t offset) {
  std::string out = text(name) + u32(static_cast<std::uint32_t>(sizes.size()));
  for (const auto size : sizes) out += u64(size);
  return out + u32(type) + u64(offset);
}
std::string header(std::uint64_t tensors, std::uint64_t values, std::uint32_t version = 3) {
  return "GGUF" + u32(version) + u64(tensors) + u64(values);
}
std::string padded_to(std::string file, std::size_t to = 32) {
  file.resize((file.size() + to - 1) / to * to, '\0');
  return file;
}

GgufContent parse_text(const std::string& file) { return parse_gguf(bytes_of(file), "m.gguf"); }

std::string error_of(const std::string& file) {
  return testing::error_or("", [&] { parse_text(file); });
}

TEST(Gguf, ReadsAFileMadeByHand) {
  const std::string file =
      padded_to(header(2, 3) + key("general.architecture", 8, text("llama")) +
                key("a.list", 9, u32(5) + u64(2) + raw(std::int32_t{-1}) + raw(std::int32_t{7})) +
                key("a.eps", 6, raw(0.5f)) + tensor("b", {2, 3}, 0, 32) + tensor("a", {4}, 1, 0)) +
      padded_to(std::string("\x00\x3c\x00\x40\x00\x00\x00\xbc", 8)) + raw(1.f) + raw(2.f) +
      raw(3.f) + raw(4.f) + raw(5.f) + raw(6.f);
  const GgufContent content = parse_text(file);
  ASSERT_EQ(content.metadata.size(), 3u);
  EXPECT_EQ(*content.metadata[0].second.as_string(), "llama");
  EXPECT_EQ(content.metadata[1].second.as_integers(), (std::vector<std::int64_t>{-1, 7}));
  EXPECT_EQ(content.metadata[2].second.as_number(), 0.5);
  ASSERT_EQ(content.tensors.size(), 2u);
  EXPECT_EQ(content.tensors[0].name, "a");
  EXPECT_EQ(content.tensors[0].type, GgmlType::kF16);
  EXPECT_EQ(content.tensors[0].data.size(), 8u);
  EXPECT_EQ(content.tensors[1].shape, (std::vector<std::int64_t>{3, 2}));
  float last = 0;
  std::memcpy(&last, content.tensors[1].data.data() + 20, 4);
  EXPECT_EQ(last, 6.f);
}

TEST(Gguf, ReadsEveryTypeOfValue) {
  const std::string file =
      header(0, 13) + key("u8", 0, raw(std::uint8_t{200})) + key("i8", 1, raw(std::int8_t{-3})) +
      key("u16", 2, raw(std::uint16_t{60000})) + key("i16", 3, raw(std::int16_t{-300})) +
      key("u32", 4, u32(4000000000)) + key("i32", 5, raw(std::int32_t{-70000})) +
      key("f32", 6, raw(1.5f)) + key("bool", 7, "\x01") + key("string", 8, text("x")) +
      key("strings", 9, u32(8) + u64(2) + text("") + text("yz")) + key("u64", 10, u64(1ull << 63)) +
      key("i64", 11, raw(std::int64_t{-5})) + key("f64", 12, raw(0.1));
  const auto values = parse_text(padded_to(file)).metadata;
  EXPECT_EQ(values[0].second.as_integer(), 200);
  EXPECT_EQ(values[1].second.as_integer(), -3);
  EXPECT_EQ(values[2].second.as_integer(), 60000);
  EXPECT_EQ(values[3].second.as_integer(), -300);
  EXPECT_EQ(values[4].second.as_integer(), 4000000000);
  EXPECT_EQ(values[5].second.as_integer(), -70000);
  EXPECT_EQ(values[6].second.as_number(), 1.5);
  EXPECT_EQ(values[7].second.as_bool(), true);
  EXPECT_EQ(*values[8].second.as_string(), "x");
  EXPECT_EQ(*values[9].second.as_strings(), (std::vector<std::string>{"", "yz"}));
  EXPECT_EQ(values[10].second.as_integer(), std::nullopt);  // does not fit
  EXPECT_EQ(values[10].second.as_number(), 0x1p63);
  EXPECT_EQ(values[11].second.as_integer(), -5);
  EXPECT_EQ(values[12].second.as_number(), 0.1);
  EXPECT_EQ(values[8].second.as_integer(), std::nullopt);
}

TEST(Gguf, RefusesWhatCannotBe) {
  const std::string one_tensor = padded_to(header(1, 0) + tensor("t", {8}, 0, 0));
  EXPECT_NE(error_of("GGU"), "");
  EXPECT_NE(error_of("GGML" + std::string(20, '\0')), "");
  testing::expect_says(error_of(header(0, 0, 1)), {"version 1"});
  testing::expect_says(error_of(header(0, 0, 0x03000000)), {"big-endian"});
  testing::expect_says(error_of(header(1ull << 60, 0)), {"more than the file"});
  testing::expect_says(error_of(header(0, ~0ull)), {"more than the file"});
  testing::expect_says(
      error_of(header(0, 1) + key("k", 9, u32(0) + u64(~0ull)) + std::string(32, 'x')),
      {"more than the file"});
  testing::expect_says(
      error_of(header(0, 1) + key("k", 9, u32(8) + u64(1ull << 61)) + std::string(32, 'x')),
      {"more than the file"});
  testing::expect_says(
      error_of(header(0, 1) + key("k", 9, u32(9) + u64(1)) + std::string(32, '\0')),
      {"array of arrays"});
  testing::expect_says(error_of(header(0, 1) + key("k", 13, u64(1))), {"unknown type"});
  testing::expect_says(error_of(header(0, 1) + key("k", 7, "\x02") + "xxxx"), {"truth value"});
  testing::expect_says(error_of(header(0, 2) + key("k", 4, u32(1)) + key("k", 4, u32(1))),
                       {"twice"});
  testing::expect_says(error_of(header(0, 1) + u64(~0ull) + std::string(64, 'x')), {"ends within"});
  for (const std::uint32_t alignment : {0u, 3u, 1u << 30})
    testing::expect_says(error_of(header(0, 1) + key("general.alignment", 4, u32(alignment))),
                         {"power"});
  EXPECT_EQ(error_of(one_tensor + std::string(32, '\0')), "");
  testing::expect_says(error_of(one_tensor + std::string(31, '\0')), {"needs 32 bytes"});
  testing::expect_says(error_of(one_tensor + std::string(64, '\0')), {"belong to no tensor"});
  const std::string data(128, '\0');
  const auto with = [&](const std::string& listed, std::uint64_t count = 1) {
    return error_of(padded_to(header(count, 0) + listed) + data);
  };
  testing::expect_says(with(tensor("t", {}, 0, 0)), {"axes"});
  testing::expect_says(with(tensor("t", {1, 1, 1, 1, 1}, 0, 0)), {"axes"});
  testing::expect_says(with(tensor("t", {0}, 0, 0)), {"empty"});
  testing::expect_says(with(tensor("t", {1ull << 32, 1ull << 32}, 0, 0)), {"too large"});
  testing::expect_says(with(tensor("t", {1ull << 61}, 0, 0)), {"needs"});
  testing::expect_says(with(tensor("t", {32}, 99, 0)),
                       {"m.gguf", "'t'", "number 99", "Q5_K and Q6_K are read"});
  testing::expect_says(with(tensor("t", {32}, 23, 0)), {"m.gguf", "'t'", "IQ4_XS (number 23)"});
  testing::expect_says(with(tensor("t", {128, 2}, 12, 0)),
                       {"m.gguf", "'t'", "row of 128", "256, as Q4_K"});
  testing::expect_says(with(tensor("t", {256}, 12, 0)),
                       {"m.gguf", "'t'", "needs 144 bytes", "has 128"});
  testing::expect_says(with(tensor("t", {1ull << 61}, 14, 0)), {"m.gguf", "'t'", "needs"});
  testing::expect_says(with(tensor("t", {48, 2}, 8, 0)), {"blocks"});
  testing::expect_says(with(tensor("t", {8}, 0, 16)), {"begins at"});
  testing::expect_says(with(tensor("t", {8}, 0, 0) + tensor("u", {8}, 0, 0), 2), {"overlaps"});
  testing::expect_says(with(tensor("t", {8}, 0, 0) + tensor("u", {8}, 0, 64), 2), {"begins at"});
  testing::expect_says(with(tensor("t", {8}, 0, 0) + tensor("t", {8}, 0, 32), 2), {"twice"});
}

TEST(Gguf, EveryPrefixOfAFileIsRefused) {
  const std::string file =
      padded_to(header(1, 2) + key("a", 8, text("some text")) +
                key("b", 9, u32(8) + u64(2) + text("x") + text("yy")) + tensor("t", {8, 2}, 0, 0)) +
      std::string(64, 'x');
  EXPECT_EQ(error_of(file), "");
  for (std::size_t length = 0; length < file.size(); ++length)
    EXPECT_NE(error_of(file.substr(0, length)), "") << length;
}

TEST(Gguf, WrittenFilesReadBack) {
  const TempDirectory directory;
  const auto path = directory.path() / "m.gguf";
  const std::vector<std::int32_t> types = {1, -6};
  const std::vector<float> scores = {-1.5f, 0};
  const GgufMetadata metadata = {{"general.architecture", GgufValue::string("llama")},
                                 {"a.count", GgufValue::u32(4000000000)},
                                 {"a.eps", GgufValue::f32(1e-5f)},
                                 {"a.on", GgufValue::boolean(true)},
                                 {"a.tokens", GgufValue::strings({"\xe2\x96\x81x", ""})},
                                 {"a.types", GgufValue::i32s(types)},
                                 {"a.scores", GgufValue::f32s(scores)},
                                 {"a.map", GgufValue::bytes(std::string("\0\xff", 2))}};
  const std::string first(12, 'a'), second(2 * kQ8BlockBytes, 'b');
  GgufWriter writer(real_file_system(), path, metadata,
                    {{"z", GgmlType::kF32, {3}}, {"q", GgmlType::kQ8_0, {2, 32}}});
  writer.write("z", bytes_of(first));
  writer.write("q", bytes_of(second).first(10));  // in two parts
  writer.write("q", bytes_of(second).subspan(10));
  EXPECT_FALSE(std::filesystem::exists(path));
  writer.commit();
  const GgufFile file(path);
  EXPECT_EQ(file.value("a.count")->as_integer(), 4000000000);
  EXPECT_EQ(file.value("a.count")->type(), GgufType::kU32);
  EXPECT_EQ(file.value("a.eps")->as_number(), double{1e-5f});
  EXPECT_EQ(file.value("a.on")->as_bool(), true);
  EXPECT_EQ(*file.value("a.tokens")->as_strings(), (std::vector<std::string>{"\xe2\x96\x81x", ""}));
  EXPECT_EQ(file.value("a.types")->as_integers(), (std::vector<std::int64_t>{1, -6}));
  EXPECT_EQ(file.value("a.scores")->as_numbers(), scores);
  EXPECT_EQ(file.value("a.map")->as_integers(), (std::vector<std::int64_t>{0, 255}));
  EXPECT_EQ(file.value("none"), nullptr);
  const GgufTensor* q = file.find("q");
  ASSERT_TRUE(q);
  EXPECT_EQ(q->shape, (std::vector<std::int64_t>{2, 32}));
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(q->data.data()), q->data.size()), second);
  EXPECT_EQ(file.find("none"), nullptr);
}

TEST(Gguf, AnUnfinishedFileIsAbsent) {
  const TempDirectory directory;
  const auto path = directory.path() / "m.gguf";
  { GgufWriter writer(real_file_system(), path, {}, {{"z", GgmlType::kF32, {3}}}); }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(Half, EveryHalfSurvivesAndRoundingIsToEven) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = f16_to_f32(static_cast<std::uint16_t>(bits));
    if (std::isnan(value))
      EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(value))));
    else
      EXPECT_EQ(f32_to_f16(value), bits);
  }
  EXPECT_EQ(f16_to_f32(0x3c00), 1.0f);
  EXPECT_EQ(f16_to_f32(0x0001), 0x1p-24f);
  EXPECT_EQ(f16_to_f32(0xfbff), -65504.0f);
  EXPECT_EQ(f32_to_f16(1.0f + 0x1p-11f), 0x3c00);             // a tie, to even
  EXPECT_EQ(f32_to_f16(1.0f + 3 * 0x1p-11f), 0x3c02);         // a tie, to even
  EXPECT_EQ(f32_to_f16(1.0f + 0x1p-11f + 0x1p-20f), 0x3c01);  // above the tie
  EXPECT_EQ(f32_to_f16(65519.0f), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(f32_to_f16(0x1p-25f), 0x0000);  // a tie, to even
  EXPECT_EQ(f32_to_f16(0x1.8p-25f), 0x0001);
  EXPECT_EQ(f32_to_f16(-0.0f), 0x8000);
}

TEST(Q8, BlocksByHand) {
  std::vector<float> values(kQ8Block, 0.0f);
  values[0] = 127;
  values[1] = -63.5f;  // a tie: away from zero
  values[2] = 1.4f;
  values[3] = 2.5f;
  std::vector<std::byte> block(kQ8BlockBytes);
  quantise_q8_0(values, block);
  EXPECT_EQ(std::to_integer<int>(block[0]), 0x00);  // 1.0
  EXPECT_EQ(std::to_integer<int>(block[1]), 0x3c);
  const auto q = [&](std::size_t i) {
    return static_cast<int>(static_cast<std::int8_t>(block[2 + i]));
  };
  EXPECT_EQ(q(0), 127);
  EXPECT_EQ(q(1), -64);
  EXPECT_EQ(q(2), 1);
  EXPECT_EQ(q(3), 3);
  EXPECT_EQ(q(4), 0);
  std::vector<float> back(kQ8Block);
  dequantise_q8_0(block, back);
  EXPECT_EQ(back[1], -64.0f);
  // Zeros have scale 0 and stay zeros.
  std::fill(values.begin(), values.end(), 0.0f);
  quantise_q8_0(values, block);
  dequantise_q8_0(block, back);
  EXPECT_EQ(back, values);
  values[5] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THROW(quantise_q8_0(values, block), Error);
  values[5] = 1e8f;  // its scale is beyond f16
  EXPECT_THROW(quantise_q8_0(values, block), Error);
}

TEST(Gguf, SaysThatAPointerOfGitLfsIsNoFile) {
  testing::expect_says(
      error_of("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"),
      {"m.gguf: is a pointer of Git LFS"});
}

}  // namespace
}  // namespace penstock
