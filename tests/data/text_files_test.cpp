#include "penstock/data/text_files.h"

#include <archive.h>

#include <map>

#include "penstock/data/corpus/documents.h"
#include "penstock/data/unpacked_text.h"
#include "tests/data/packed_files.h"
#include "tests/data/support.h"

namespace penstock {
namespace {

using testing::error_of;
using testing::expect_says;
using testing::pack;

std::map<std::string, std::string> read_all(const std::string& path) {
  std::map<std::string, std::string> out;
  read_text_file(path,
                 [&](const std::string& name, std::string_view content) { out[name] = content; });
  return out;
}

struct Compression {
  const char* suffix;
  int filter;
};
const Compression kCompressions[] = {{".gz", ARCHIVE_FILTER_GZIP},
                                     {".zst", ARCHIVE_FILTER_ZSTD},
                                     {".xz", ARCHIVE_FILTER_XZ},
                                     {".bz2", ARCHIVE_FILTER_BZIP2}};

/// Text that stays large when compressed.
std::string long_text() {
  std::string text;
  for (int i = 0; i < 4000; ++i) text += std::to_string(i * 7919 % 104729) + (i % 9 ? " " : "\n");
  return text;
}

TEST(TextFiles, CompressedFilesReadAsWhatTheyHold) {
  const testing::TemporaryFolder folder;
  for (const auto& [suffix, filter] : kCompressions) {
    const std::string path = pack(folder / (std::string("t.txt") + suffix), ARCHIVE_FORMAT_RAW,
                                  filter, {{"x", long_text()}});
    EXPECT_LT(std::filesystem::file_size(path), long_text().size());
    EXPECT_EQ(read_all(path), (std::map<std::string, std::string>{{folder / "t.txt", long_text()}}))
        << suffix;
  }
}

TEST(TextFiles, ACompressedFileOfNothingIsEmptyNotDamaged) {
  const testing::TemporaryFolder folder;
  folder.write("in/plain.txt", "");
  folder.write("in/text.txt", "text");
  for (const auto& [suffix, filter] : kCompressions) {
    const std::string path =
        pack(folder / (std::string("in/e.txt") + suffix), ARCHIVE_FORMAT_RAW, filter, {{"x", ""}});
    EXPECT_EQ(read_all(path), (std::map<std::string, std::string>{{folder / "in/e.txt", ""}}))
        << suffix;
    EXPECT_TRUE(read_documents({.path = path}, {}).empty()) << suffix;
    const std::string whole = testing::read_bytes(path);
    for (std::size_t length = 0; length + 1 < whole.size(); ++length) {
      const std::string cut =
          folder.write(std::string("cut") + suffix, std::string_view(whole).substr(0, length));
      expect_says(error_of([&] { read_all(cut); }), {"cut"});
    }
  }
  EXPECT_EQ(read_documents({.path = folder / "in"}, {}).size(), 1u);
}

TEST(TextFiles, ArchivesReadMemberByMember) {
  const testing::TemporaryFolder folder;
  const std::map<std::string, std::string> members = {{"a.txt", "first"}, {"b/c.txt", long_text()}};
  for (const auto& [name, format, filter] :
       {std::tuple("m.zip", ARCHIVE_FORMAT_ZIP, ARCHIVE_FILTER_NONE),
        std::tuple("m.tar", ARCHIVE_FORMAT_TAR_USTAR, ARCHIVE_FILTER_NONE),
        std::tuple("m.tar.gz", ARCHIVE_FORMAT_TAR_USTAR, ARCHIVE_FILTER_GZIP)}) {
    const std::string path = pack(folder / name, format, filter, members);
    EXPECT_EQ(read_all(path), (std::map<std::string, std::string>{
                                  {path + ":a.txt", "first"}, {path + ":b/c.txt", long_text()}}));
  }
}

TEST(TextFiles, HiddenMembersArePassedOverAsInFolders) {
  const testing::TemporaryFolder folder;
  // A folder as macOS packs it, with hidden binary files.
  const std::map<std::string, std::string> members = {{"./a.txt", "first"},
                                                      {"d/.DS_Store", "\x01\xff"},
                                                      {"d/.git/config", "no"},
                                                      {"d/b.c.txt", "second"},
                                                      {"__MACOSX/d/._b.c.txt", "\x05\xff"}};
  for (const auto& [name, format] :
       {std::pair("m.zip", ARCHIVE_FORMAT_ZIP), std::pair("m.tar", ARCHIVE_FORMAT_TAR_USTAR)}) {
    const std::string path = pack(folder / name, format, ARCHIVE_FILTER_NONE, members);
    std::string seen;
    for (const auto& document : read_documents({.path = path}, {}))
      seen += std::string(document.text) + " ";
    EXPECT_TRUE(seen == "first second " || seen == "second first ") << seen;
  }
  const std::string only =
      pack(folder / "h.zip", ARCHIVE_FORMAT_ZIP, ARCHIVE_FILTER_NONE, {{"__MACOSX/._a", "\x05"}});
  expect_says(error_of([&] { read_all(only); }), {"h.zip", "hidden"});
}

TEST(TextFiles, TruncationIsAnErrorThatNamesTheFile) {
  const testing::TemporaryFolder folder;
  for (const auto& [suffix, filter] : kCompressions) {
    const std::string whole = testing::read_bytes(pack(
        folder / (std::string("t") + suffix), ARCHIVE_FORMAT_RAW, filter, {{"x", long_text()}}));
    const std::string name = std::string("cut") + suffix;
    for (std::size_t length = 0; length + 1 < whole.size();
         length += length < 40 ? 1 : whole.size() / 16) {
      const std::string path = folder.write(name, std::string_view(whole).substr(0, length));
      expect_says(error_of([&] { read_all(path); }), {name});
    }
  }
  const std::string zip = testing::read_bytes(
      pack(folder / "t.zip", ARCHIVE_FORMAT_ZIP, ARCHIVE_FILTER_NONE, {{"a.txt", long_text()}}));
  for (const std::size_t length : {std::size_t{0}, std::size_t{10}, zip.size() / 2}) {
    const std::string path = folder.write("cut.zip", std::string_view(zip).substr(0, length));
    expect_says(error_of([&] { read_all(path); }), {"cut.zip"});
  }
}

TEST(TextFiles, DamageDoesNotCrash) {
  const testing::TemporaryFolder folder;
  for (const auto& [suffix, filter] : kCompressions) {
    const std::string name = std::string("d") + suffix;
    const std::string whole =
        testing::read_bytes(pack(folder / name, ARCHIVE_FORMAT_RAW, filter, {{"x", long_text()}}));
    for (std::size_t at = 0; at < whole.size(); at += whole.size() / 40) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
      const std::string path = folder.write(name, damaged);
      try {
        read_all(path);  // libarchive does not check gzip's checksums
      } catch (const Error& error) {
        expect_says(error.what(), {name});
      }
    }
  }
}

TEST(TextFiles, WhatIsNotThereOrNotCompressedOrTooLarge) {
  const testing::TemporaryFolder folder;
  expect_says(error_of([&] { read_all(folder / "no.txt"); }), {"no.txt"});
  expect_says(error_of([&] { read_all("/dev/null"); }), {"/dev/null", "not a regular file"});
  const std::string fake = folder.write("fake.gz", "plain text, in truth");
  expect_says(error_of([&] { read_all(fake); }), {"fake.gz", "not compressed"});
  const std::string bomb = pack(folder / "bomb.gz", ARCHIVE_FORMAT_RAW, ARCHIVE_FILTER_GZIP,
                                {{"x", std::string(1 << 20, 'a')}});
  expect_says(error_of([&] {
                read_text_file(bomb, [](const std::string&, std::string_view) {}, {.limit = 1000});
              }),
              {"bomb.gz"});
}

TEST(TextFiles, TextAboveTheLimitOfMemoryIsReadWhole) {
  const testing::TemporaryFolder folder;
  const std::string text = std::string(kLargeText, 'a') + "end";
  const std::string plain = folder.write("plain.txt", text),
                    packed = pack(folder / "packed.gz", ARCHIVE_FORMAT_RAW, ARCHIVE_FILTER_GZIP,
                                  {{"x", text}});
  const std::string wait = folder / "wait";
  std::filesystem::create_directory(wait);
  int visits = 0;
  const auto visit = [&](const std::string&, std::string_view content) {
    ++visits;
    EXPECT_TRUE(content == text);
  };
  read_text_file(plain, visit);
  read_text_file(packed, visit, {.folder = wait});
  EXPECT_EQ(visits, 2);
  // With a folder, a file may unpack to 64 times its size, and this one unpacks to more.
  ASSERT_GT(text.size(), 64 * std::filesystem::file_size(packed));
  expect_says(error_of([&] { read_text_file(packed, visit, {.folder = wait, .limit = 1000}); }),
              {"packed.gz", "more than is allowed"});
  EXPECT_TRUE(std::filesystem::is_empty(wait));
}

TEST(TextFiles, CompressedJsonlIsStillJsonl) {
  const testing::TemporaryFolder folder;
  const std::string path =
      pack(folder / "web.jsonl.gz", ARCHIVE_FORMAT_RAW, ARCHIVE_FILTER_GZIP,
           {{"x", "{\"text\":\"one\\n\\u00e9\"}\n\n{\"id\":3,\"text\":\"two\"}\n"}});
  const auto documents = read_documents({.path = path}, {});
  ASSERT_EQ(documents.size(), 2u);
  EXPECT_EQ(documents[0].text, "one\n\xc3\xa9");
  EXPECT_EQ(documents[1].text, "two");
  EXPECT_EQ(documents[0].domain, "web");
}

}  // namespace
}  // namespace penstock
