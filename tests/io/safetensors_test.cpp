#include "penstock/io/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "penstock/base/atomic_files.h"
#include "penstock/base/random.h"
#include "tests/base/error_of.h"
#include "tests/base/temp_directory.h"

namespace penstock {
namespace {

using testing::TempDirectory;

class StringFile : public OutputFile {
 public:
  void write(Bytes bytes) override {
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  void sync() override {}
  void close() override {}
  std::string text;
};

/// The bytes of a file with this header and these data, put together by hand.
std::string file_of(const std::string& header, const std::string& data) {
  const std::uint64_t length = header.size();
  std::string out(8, '\0');
  std::memcpy(out.data(), &length, 8);
  return out + header + data;
}

SafetensorsHeader parse(const std::string& file) {
  return parse_safetensors(bytes_of(file), "m.st");
}

std::string parse_error(const std::string& file) {
  return testing::error_or("", [&] { parse(file); });
}

std::string written(std::vector<TensorView> tensors, const Metadata& metadata = {}) {
  StringFile file;
  write_safetensors(file, std::move(tensors), metadata);
  return file.text;
}

TEST(Safetensors, ReadsAFileMadeByHand) {
  const auto file = file_of(
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[1,2],"data_offsets":[2,10]},)"
      R"("a":{"dtype":"BF16","shape":[],"data_offsets":[0,2]},)"
      R"("none":{"dtype":"I64","shape":[3,0],"data_offsets":[10,10]}})",
      std::string("\x80\x3f\x00\x00\x80\x3f\x00\x00\x00\x40", 10));
  const auto header = parse(file);
  ASSERT_EQ(header.tensors.size(), 3u);
  EXPECT_EQ(header.metadata, (Metadata{{"format", "pt"}}));
  EXPECT_EQ(header.tensors[0].name, "a");
  EXPECT_EQ(header.tensors[0].dtype, Dtype::kBF16);
  EXPECT_TRUE(header.tensors[0].shape.empty());
  float values[2];
  ASSERT_EQ(header.tensors[1].data.size(), sizeof values);
  std::memcpy(values, header.tensors[1].data.data(), sizeof values);
  EXPECT_EQ(values[0], 1.0f);
  EXPECT_EQ(values[1], 2.0f);
  EXPECT_EQ(header.tensors[2].shape, (std::vector<std::int64_t>{3, 0}));
}

TEST(Safetensors, WritesTheKnownBytes) {
  const std::string data = "abcdefgh", half = "xy";
  const auto file =
      written({{"h", Dtype::kF16, {1}, bytes_of(half)}, {"i", Dtype::kI64, {}, bytes_of(data)}},
              {{"k", "v"}});
  std::string header =
      R"({"__metadata__":{"k":"v"},"i":{"dtype":"I64","shape":[],"data_offsets":[0,8]},)"
      R"("h":{"dtype":"F16","shape":[1],"data_offsets":[8,10]}})";
  while (header.size() % 8) header += ' ';
  EXPECT_EQ(file, file_of(header, "abcdefghxy"));
}

TEST(Safetensors, EveryTensorIsAligned) {
  const std::string bytes(64, 'x');
  const auto file = written({{"a", Dtype::kU8, {3}, bytes_of(bytes).first(3)},
                             {"b", Dtype::kF64, {2}, bytes_of(bytes).first(16)},
                             {"c", Dtype::kBF16, {5}, bytes_of(bytes).first(10)},
                             {"d", Dtype::kF32, {3}, bytes_of(bytes).first(12)},
                             {"e", Dtype::kBool, {1}, bytes_of(bytes).first(1)}});
  for (const auto& tensor : parse(file).tensors) {
    const auto offset = reinterpret_cast<const char*>(tensor.data.data()) - file.data();
    EXPECT_EQ(offset % static_cast<std::ptrdiff_t>(dtype_bytes(tensor.dtype)), 0) << tensor.name;
  }
}

TEST(Safetensors, OrderOfWritingDoesNotMatter) {
  const std::string bytes(8, 'x');
  const TensorView a{"a", Dtype::kF32, {2}, bytes_of(bytes)},
      b{"b", Dtype::kU8, {8}, bytes_of(bytes)};
  EXPECT_EQ(written({a, b}), written({b, a}));
  EXPECT_EQ(parse(written({})).tensors.size(), 0u);
}

TEST(Safetensors, WriterRefusesBugs) {
  const std::string bytes(8, 'x');
  EXPECT_THROW(written({{"a", Dtype::kF32, {3}, bytes_of(bytes)}}), AssertionError);
  EXPECT_THROW(
      written({{"a", Dtype::kU8, {8}, bytes_of(bytes)}, {"a", Dtype::kF32, {2}, bytes_of(bytes)}}),
      AssertionError);
}

struct Refused {
  std::string header, data, reason;
};

TEST(Safetensors, AHeaderThatNoReaderTakesIsNotWritten) {
  const testing::TempDirectory temp;
  const auto file = real_file_system().open(temp.path() / "file", OpenMode::kTruncate);
  testing::expect_error(
      [&] {
        write_safetensors(*file, {}, {{"note", std::string(100'000'000, 'a')}});
      },
      {"in 100000000 bytes at most, and these 0 take"});
  EXPECT_EQ(real_file_system().size(temp.path() / "file"), 0u);
}

TEST(Safetensors, RefusesWhatDoesNotAddUp) {
  const auto entry = [](const std::string& dtype, const std::string& shape,
                        const std::string& offsets) {
    return R"({"t":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets +
           "}}";
  };
  const std::string four(4, 'x'), eight(8, 'x');
  const Refused cases[] = {
      {entry(R"("F32")", "[1]", "[0,8]"), eight, "needs 4 bytes"},
      {entry(R"("F32")", "[1]", "[4,0]"), eight, "outside"},
      {entry(R"("F32")", "[2]", "[0,8]"), four, "outside"},
      {entry(R"("F32")", "[1]", "[0,4]"), eight, "belong to no tensor"},
      {entry(R"("F32")", "[1]", "[4,8]"), eight, "gap"},
      {entry(R"("F33")", "[1]", "[0,4]"), four, "unknown dtype F33"},
      {entry("7", "[1]", "[0,4]"), four, "unknown dtype"},
      {entry(R"("F32")", "[-1]", "[0,4]"), four, "whole number"},
      {entry(R"("F32")", "[1.0]", "[0,4]"), four, "whole number"},
      {entry(R"("F32")", "1", "[0,4]"), four, "not an array"},
      {entry(R"("F32")", "[1]", "[0]"), four, "not a pair"},
      {entry(R"("F32")", "[1]", R"([0,"4"])"), four, "whole number"},
      {entry(R"("F32")", "[4611686018427387905]", "[0,4]"), four, "too large"},
      {entry(R"("U8")", "[4294967296,4294967296]", "[0,0]"), "", "too large"},
      {entry(R"("U8")", "[0,4294967296,4294967296]", "[0,0]"), "", "too large"},
      {entry(R"("U8")", "[18446744073709551615]", "[0,0]"), "", "out of range"},
      {entry(R"("U8")", "[99999999999999999999]", "[0,0]"), "", "whole number"},
      {R"({"t":{"dtype":"U8","shape":[1]}})", "x", "expected dtype"},
      {R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"more":0}})", "x", "expected dtype"},
      {R"({"t":5})", "", "expected dtype"},
      {R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
       R"("t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
       "x", "twice"},
      {R"({"t":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "x", "twice"},
      {R"({"s":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
       R"("t":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
       "xyz", "overlaps"},
      {R"({"__metadata__":{"a":1}})", "", "not a string"},
      {R"({"__metadata__":[]})", "", "not an object"},
      {R"({"t":{"dtype":"U8","shape":[[1]],"data_offsets":[0,1]}})", "x", "nested"},
      {"[]", "", "no header"},
      {"", "", "no header"},
      {"{", "", "not valid JSON"},
      {"{} x", "", "not valid JSON"},
      {"{\"\xff\":1}", "", "not valid JSON"},
  };
  for (const auto& [header, data, reason] : cases) {
    const auto error = parse_error(file_of(header, data));
    EXPECT_NE(error.find(reason), std::string::npos) << header << "\n" << error;
    EXPECT_EQ(error.find("m.st"), 0u) << error;
  }
}

TEST(Safetensors, RefusesForeignAndShortFiles) {
  testing::expect_says(parse_error(""), {"too few"});
  testing::expect_says(parse_error("short"), {"too few"});
  testing::expect_says(parse_error("GGUF and then some more"), {"of another kind"});
  EXPECT_EQ(parse_error("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"),
            "m.st: is a pointer of Git LFS, not the file itself; fetch it (`git lfs pull`)");
  std::string huge = file_of("{}", "");
  huge[5] = 1;
  testing::expect_says(parse_error(huge), {"claims 1099511627778 bytes"});
}

TEST(Safetensors, DeepNestingIsRefusedCheaply) {
  const std::string deep = R"({"t":)" + std::string(1'000'000, '[');
  testing::expect_says(parse_error(file_of(deep, "")), {"nested"});
}

/// Reads every byte that a view shows, so that a sanitizer sees a view outside the file.
std::uint64_t touch(const SafetensorsHeader& header) {
  std::uint64_t sum = 0;
  for (const auto& tensor : header.tensors)
    for (const auto byte : tensor.data) sum += std::to_integer<std::uint64_t>(byte);
  return sum;
}

TEST(Safetensors, MutatedFilesAreReadOrRefused) {
  const std::string bytes(48, 'x');
  const auto good = written({{"layers.0.weight", Dtype::kF32, {3, 4}, bytes_of(bytes)},
                             {"layers.0.bias", Dtype::kBF16, {4}, bytes_of(bytes).first(8)},
                             {"step", Dtype::kI64, {}, bytes_of(bytes).first(8)},
                             {"mask", Dtype::kBool, {0}, {}}},
                            {{"format", "pt"}});
  ASSERT_EQ(parse(good).tensors.size(), 4u);
  static constexpr std::string_view kPieces[] = {
      "{", "}",    "[",       "]",   "\"", ",",          ":",   "-1",    "1e400",
      "0", "null", "\\u0000", "F64", " ",  "4294967296", "9e9", "shape", "dtype"};
  int refused = 0, accepted = 0;
  for (std::uint64_t trial = 0; trial < 10'000; ++trial) {
    std::uint64_t draws = 0;
    const auto below = [&](std::uint64_t bound) {
      return random_below(random_bits(7, trial, draws++), bound);
    };
    std::string file = good;
    for (auto edits = 1 + below(4); edits > 0 && !file.empty(); --edits) {
      const auto at = below(file.size());
      switch (below(5)) {
        case 0:
          file[at] = static_cast<char>(below(256));
          break;
        case 1:
          file[at] = static_cast<char>(file[at] ^ (1 << below(8)));
          break;
        case 2:
          file.erase(at, 1 + below(8));
          break;
        case 3:
          file.insert(at, kPieces[below(std::size(kPieces))]);
          break;
        case 4:
          file.resize(below(file.size() + 16));
          break;
      }
      // In half of the trials the stored length is right, so that the header itself is wrong.
      const auto end = file.find("xxxx");
      if (below(2) && file.size() >= 8 && end != std::string::npos && end >= 8) {
        const std::uint64_t length = end - 8;
        std::memcpy(file.data(), &length, 8);
      }
    }
    // The buffer has exactly the file's size, so that a sanitizer reports a read past its end.
    const auto exact = std::make_unique<std::byte[]>(file.size());
    std::memcpy(exact.get(), file.data(), file.size());
    try {
      touch(parse_safetensors({exact.get(), file.size()}, "m.st"));
      ++accepted;
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 5000);
  EXPECT_GT(accepted, 50);  // where only the data changed
}

class SafetensorsModelTest : public ::testing::Test {
 protected:
  void put(const std::string& name, const std::string& text) {
    write_file_atomically(real_file_system(), temp_.path() / name, text);
  }
  std::string open_error() const {
    return testing::error_or("", [&] { SafetensorsModel model(temp_.path()); });
  }
  const std::string bytes_ = "abcdefgh";
  const TempDirectory temp_;
};

TEST_F(SafetensorsModelTest, ReadsOneFile) {
  put("model.safetensors", written({{"a", Dtype::kU8, {8}, bytes_of(bytes_)}}, {{"format", "pt"}}));
  for (const auto& path : {temp_.path(), temp_.path() / "model.safetensors"}) {
    const SafetensorsModel model(path);
    ASSERT_EQ(model.tensors().size(), 1u);
    EXPECT_TRUE(model.find("a"));
    EXPECT_FALSE(model.find("b"));
    EXPECT_EQ(model.metadata().at("format"), "pt");
  }
}

TEST_F(SafetensorsModelTest, ReadsShards) {
  put("model-1.safetensors", written({{"b", Dtype::kU8, {8}, bytes_of(bytes_)}}));
  put("model-2.safetensors", written({{"a", Dtype::kU8, {2}, bytes_of(bytes_).first(2)},
                                      {"c", Dtype::kU8, {1}, bytes_of(bytes_).first(1)}}));
  put("model.safetensors.index.json",
      R"({"metadata":{"total_size":11},"weight_map":{"a":"model-2.safetensors",)"
      R"("b":"model-1.safetensors","c":"model-2.safetensors"}})");
  const SafetensorsModel model(temp_.path());
  ASSERT_EQ(model.tensors().size(), 3u);
  EXPECT_EQ(model.find("a")->data.size(), 2u);
  EXPECT_EQ(model.find("b")->data.size(), 8u);
  EXPECT_EQ(std::to_integer<char>(model.find("b")->data[7]), 'h');
  EXPECT_EQ(model.find("c")->data.size(), 1u);
}

TEST_F(SafetensorsModelTest, RefusesBadIndexes) {
  testing::expect_says(open_error(), {"neither"});
  put("model-1.safetensors", written({{"b", Dtype::kU8, {8}, bytes_of(bytes_)}}));
  const std::pair<std::string, std::string> cases[] = {
      {"nonsense", "not an index"},
      {"{}", "not an index"},
      {R"({"weight_map":{}})", "not an index"},
      {R"({"weight_map":{"b":3}})", "names no file"},
      {R"({"weight_map":{"b":"model-1.safetensors","b":"model-1.safetensors"}})",
       "the index of shards names 'b' twice"},
      {R"({"weight_map":{"b":)" + std::string(1'000'000, '['), "is nested too deeply"},
      {R"({"weight_map":{"b":"../model-1.safetensors"}})", "beside the index"},
      {R"({"weight_map":{"b":"/etc/passwd"}})", "beside the index"},
      {R"({"weight_map":{"b":".."}})", "beside the index"},
      {R"({"weight_map":{"b":"model-1.safetensors\u0000"}})", "beside the index"},
      {R"({"weight_map":{"b":"model-9.safetensors"}})",
       "index.json: names the file model-9.safetensors, which is not there; copy it to "},
      {R"({"weight_map":{"a":"model-1.safetensors"}})", "'a' is not in"},
      {R"({"weight_map":{"b":"model-1.safetensors","c":"model-2.safetensors"}})",
       "'d' of model-2.safetensors is not in the weight_map"},
  };
  put("model-2.safetensors", written({{"c", Dtype::kU8, {1}, bytes_of(bytes_).first(1)},
                                      {"d", Dtype::kU8, {1}, bytes_of(bytes_).first(1)}}));
  for (const auto& [index, reason] : cases) {
    put("model.safetensors.index.json", index);
    EXPECT_NE(open_error().find(reason), std::string::npos) << index << "\n" << open_error();
  }
}

}  // namespace
}  // namespace penstock
