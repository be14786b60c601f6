#include "penstock/data/text_files.h"

#include <archive.h>
#include <archive_entry.h>

#include <map>

#include "penstock/data/corpus/documents.h"
#include "penstock/data/utf8.h"
#include "tests/data/support.h"

namespace penstock {
namespace {

using testing::error_of;
using testing::expect_says;

/// Writes members into an archive or, for a raw format, one compressed file.
std::string pack(const std::string& path, int format, int filter,
                 const std::map<std::string, std::string>& members) {
  archive* out = archive_write_new();
  EXPECT_EQ(archive_write_set_format(out, format), ARCHIVE_OK);
  EXPECT_EQ(archive_write_add_filter(out, filter), ARCHIVE_OK);
  EXPECT_EQ(archive_write_open_filename(out, path.c_str()), ARCHIVE_OK)
      << archive_error_string(out);
  for (const auto& [name, content] : members) {
    archive_entry* entry = archive_entry_new();
    archive_entry_set_pathname(entry, name.c_str());
    archive_entry_set_size(entry, static_cast<la_int64_t>(content.size()));
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_entry_set_perm(entry, 0644);
    EXPECT_EQ(archive_write_header(out, entry), ARCHIVE_OK);
    EXPECT_EQ(archive_write_data(out, content.data(), content.size()),
              static_cast<la_ssize_t>(content.size()));
    archive_entry_free(entry);
  }
  EXPECT_EQ(archive_write_close(out), ARCHIVE_OK);
  archive_write_free(out);
  return path;
}

std::map<std::string, std::string> read_all(const std::string& path) {
  std::map<std::string, std::string> out;
  read_text_file(
      path, [&](const std::string& name, std::string content) { out[name] = std::move(content); });
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

/// Text that does not compress to nothing.
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
  // As macOS packs a folder: what lies beside the files is binary.
  const std::map<std::string, std::string> members = {{"./a.txt", "first"},
                                                      {"d/.DS_Store", "\x01\xff"},
                                                      {"d/.git/config", "no"},
                                                      {"d/b.c.txt", "second"},
                                                      {"__MACOSX/d/._b.c.txt", "\x05\xff"}};
  for (const auto& [name, format] :
       {std::pair("m.zip", ARCHIVE_FORMAT_ZIP), std::pair("m.tar", ARCHIVE_FORMAT_TAR_USTAR)}) {
    const std::string path = pack(folder / name, format, ARCHIVE_FILTER_NONE, members);
    std::string seen;
    for (const auto& document : read_documents({.path = path}, {})) seen += document.text + " ";
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
        read_all(path);  // a gzip file keeps checksums that libarchive does not look at
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
                read_text_file(
                    bomb, [](const std::string&, std::string) {}, 1000);
              }),
              {"bomb.gz"});
}

TEST(Documents, CompressedJsonlIsStillJsonl) {
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

TEST(Documents, JsonlErrorsNameTheLine) {
  const testing::TemporaryFolder folder;
  const auto fails = [&](std::string_view content, std::initializer_list<std::string_view> parts) {
    const std::string path = folder.write("d.jsonl", content);
    expect_says(error_of([&] { read_documents({.path = path}, {}); }), parts);
  };
  fails("{\"text\":\"a\"}\n{\"body\":\"b\",\"id\":1}\n",
        {"d.jsonl:2", "no field 'text'", "options.field", "body, id"});
  fails("{\"text\":1}\n", {"d.jsonl:1", "not a string"});
  fails("{\"text\":\"a\"\n", {"d.jsonl:1", "not a JSON object"});
  fails("{\"text\":\"good\"}\n{\"text\":\"hi \\ud800 x\"}\n",
        {"d.jsonl:2", "the escape \\ud800", "\\ufffd"});
  fails("{\"text\":\"hi \\udc01\"}\n", {"d.jsonl:1", "the escape \\udc01"});
  fails("[\"text\"]\n", {"d.jsonl:1", "not a JSON object"});
  const std::string path = folder.write("f.jsonl", "{\"body\":\"b\"}");
  EXPECT_EQ(read_documents({.path = path}, {.field = "body"}).at(0).text, "b");
}

TEST(Documents, AFieldNamesTheDomainOfEachLine) {
  const testing::TemporaryFolder folder;
  const ReadOptions options{.domain_field = "meta.pile_set_name"};
  const std::string good = R"({"text":"a","meta":{"pile_set_name":"Github"}})",
                    path = folder.write(
                        "d.jsonl",
                        good + "\n" + R"({"text":"b","meta":{"pile_set_name":"ArXiv"}})");
  const auto documents = read_documents({.path = path, .domain = "other"}, options);
  ASSERT_EQ(documents.size(), 2U);
  EXPECT_EQ(documents[0].domain, "Github");
  EXPECT_EQ(documents[1].domain, "ArXiv");
  for (const char* bad : {R"({"text":"b"})", R"({"text":"b","meta":"Github"})",
                          R"({"text":"b","meta":{"pile_set_name":1}})",
                          R"({"text":"b","meta":{"pile_set_name":""}})"}) {
    const std::string broken = folder.write("e.jsonl", good + "\n" + bad);
    expect_says(error_of([&] { read_documents({.path = broken}, options); }),
                {"e.jsonl:2", "meta.pile_set_name", "options.domain_field"});
  }
  // What is no JSONL has the domain of its input.
  EXPECT_EQ(read_documents({.path = folder.write("f.txt", "text")}, options).at(0).domain, "f");
}

TEST(Documents, FoldersAreSortedAndLabelledByTheirFirstFolder) {
  const testing::TemporaryFolder folder;
  folder.write("in/z.txt", "direct");
  folder.write("in/code/b.py", "second");
  folder.write("in/code/deep/a.py", "third");
  folder.write("in/code/a.py", "first");
  folder.write("in/.hidden/x.txt", "no");
  folder.write("in/code/.hidden", "no");
  folder.write("in/blank.txt", " \n\n");
  std::string seen;
  for (const auto& document : read_documents({.path = folder / "in/"}, {}))
    seen += document.domain + ":" + document.text + " ";
  EXPECT_EQ(seen, "code:first code:second code:third in:direct ");
  for (const auto& document : read_documents({.path = folder / "in", .domain = "mine"}, {}))
    EXPECT_EQ(document.domain, "mine");
  EXPECT_EQ(default_domain(folder / "in/code/a.b.txt.gz"), "a.b");
}

TEST(Documents, SeparatorsCutFiles) {
  const testing::TemporaryFolder folder;
  const auto texts = [&](std::string_view content, const std::string& separator) {
    const std::string path = folder.write("s.txt", content);
    std::vector<std::string> out;
    for (const auto& document : read_documents({.path = path}, {.separator = separator}))
      out.push_back(document.text);
    return out;
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(texts("a\nb\n\n \t\nc\r\n\r\nd", "blank-lines"), (Texts{"a\nb\n", "c\r\n", "d"}));
  EXPECT_EQ(texts("a\n<|end|>\nb<|end|>", "<|end|>"), (Texts{"a\n", "b"}));
  EXPECT_EQ(texts("a\n\nb", ""), (Texts{"a\n\nb"}));
}

TEST(Utf8, FindsTheFirstBadByte) {
  const auto npos = std::string_view::npos;
  for (const std::string_view good :
       {"", "plain", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80",
        "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"})
    EXPECT_EQ(find_invalid_utf8(good), npos) << good;
  // Overlong forms, a surrogate, beyond U+10FFFF, a stray continuation, and sequences cut short.
  for (const std::string_view bad :
       {"\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf",
        "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "\xc2", "\xe2\x82", "\xf0\x9f\x99",
        "\xc2"
        "a",
        "\xe2\x82"
        "a"})
    EXPECT_EQ(find_invalid_utf8("ok" + std::string(bad)), 2u);
}

TEST(Utf8, TheErrorSaysFileByteAndRemedy) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.write("latin1.txt", "caf\xe9 au lait");
  expect_says(error_of([&] { read_documents({.path = path}, {}); }),
              {"latin1.txt", "0xe9", "offset 3", "iconv"});
}

}  // namespace
}  // namespace penstock
