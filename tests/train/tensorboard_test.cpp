// The event file compared with bytes worked out by hand from the protobuf wire format, and its
// checksums.
#include "penstock/train/tensorboard.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "penstock/base/checksum.h"
#include "tests/base/temp_directory.h"

namespace penstock {
namespace {

using testing::TempDirectory;

/// Reads the records of a file and checks both checksums of each record.
std::vector<std::string> records_of(const std::filesystem::path& path) {
  const std::string file = real_file_system().read(path);
  std::vector<std::string> out;
  std::size_t at = 0;
  const auto take = [&](auto& value) {
    ASSERT_LE(at + sizeof value, file.size());
    std::memcpy(&value, file.data() + at, sizeof value);
    at += sizeof value;
  };
  const auto expect_crc = [](std::uint32_t masked, std::string_view bytes) {
    const std::uint32_t rotated = masked - 0xa282ead8u;
    EXPECT_EQ((rotated >> 17) | (rotated << 15), crc32c(bytes_of(bytes)));
  };
  while (at < file.size()) {
    std::uint64_t length = 0;
    std::uint32_t crc = 0;
    const auto start = at;
    take(length);
    take(crc);
    expect_crc(crc, std::string_view(file).substr(start, 8));
    out.push_back(file.substr(at, length));
    at += length;
    take(crc);
    expect_crc(crc, out.back());
    if (::testing::Test::HasFailure()) break;
  }
  return out;
}

/// The event without its first nine bytes: field 1 (double), the time of writing.
std::string undated(const std::string& event) {
  EXPECT_EQ(event.at(0), '\x09');
  return event.substr(9);
}

TEST(TensorBoard, EventsHaveTheKnownBytes) {
  const TempDirectory temp;
  TensorBoardWriter writer(real_file_system(), temp.path(), 299);
  writer.scalars(300, 1.5, {{"a", 1.0}, {"train/loss", -2.5}});
  writer.sync();
  EXPECT_EQ(writer.path().filename().string().find("events.out.tfevents."), 0u);
  const auto records = records_of(writer.path());
  ASSERT_EQ(records.size(), 3u);
  using namespace std::string_literals;
  EXPECT_EQ(undated(records[0]), "\x1a\x0d"s + "brain.Event:2");
  // Step 300 is the varint ac 02. The session log says START (field 1 = 1).
  EXPECT_EQ(undated(records[1]), "\x10\xac\x02\x3a\x02\x08\x01"s);
  const std::string first = "\x0a\x08\x0a\x01"s + "a" + "\x15\x00\x00\x80\x3f"s;
  const std::string second = "\x0a\x11\x0a\x0a"s + "train/loss" + "\x15\x00\x00\x20\xc0"s;
  EXPECT_EQ(records[2], "\x09\x00\x00\x00\x00\x00\x00\xf8\x3f"s + "\x10\xac\x02\x2a"s +
                            static_cast<char>(first.size() + second.size()) + first + second);
}

TEST(TensorBoard, BeginsAsEveryEventFileDoes) {
  const TempDirectory temp;
  TensorBoardWriter writer(real_file_system(), temp.path(), 0);
  const std::string file = real_file_system().read(writer.path());
  // A version record of 24 bytes, and the masked checksum of that length as TensorFlow writes it.
  const unsigned char expected[] = {0x18, 0, 0, 0, 0, 0, 0, 0, 0xa3, 0x7f, 0x4b, 0x22};
  EXPECT_EQ(std::memcmp(file.data(), expected, sizeof expected), 0);
}

TEST(TensorBoard, AResumedRunContinuesInANewFile) {
  const TempDirectory temp;
  TensorBoardWriter first(real_file_system(), temp.path(), 0);
  TensorBoardWriter second(real_file_system(), temp.path(), 10);
  EXPECT_NE(first.path(), second.path());
  EXPECT_EQ(real_file_system().list(temp.path()).size(), 2u);
}

}  // namespace
}  // namespace penstock
