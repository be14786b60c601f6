// Atomic files and directories are complete or absent. The tests stop the machine before each
// operation and fill the disk after each byte.
#include "penstock/base/atomic_files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <string>

#include "penstock/base/checksum.h"
#include "tests/base/error_of.h"
#include "tests/base/faulty_file_system.h"
#include "tests/base/temp_directory.h"

namespace penstock {
namespace {

using testing::Crash;
using testing::FaultyFileSystem;
using testing::TempDirectory;
using testing::Unsynced;

namespace stdfs = std::filesystem;

void write_directory(FileSystem& fs, const std::filesystem::path& path,
                     const std::string& content) {
  AtomicDirectory directory(fs, path);
  directory.write("a", content);
  directory.write("b", content + content);
  directory.commit();
}

/// The content that write_directory() wrote; "" without a directory. Fails on a mixture of two
/// contents.
std::string read_directory(FileSystem& fs, const std::filesystem::path& path) {
  if (!fs.exists(path)) return {};
  EXPECT_EQ(fs.list(path), (std::vector<std::string>{"a", "b"}));
  const auto content = fs.read(path / "a");
  EXPECT_EQ(fs.read(path / "b"), content + content);
  return content;
}

/// Runs `action` once with a crash before each of its operations, for each kind of crash, and once
/// without a crash. Then restarts the machine and calls `check` with whether `action` finished.
void crash_everywhere(
    const std::function<void(FileSystem&, const std::filesystem::path&)>& prepare,
    const std::function<void(FileSystem&, const std::filesystem::path&)>& action,
    const std::function<void(FileSystem&, const std::filesystem::path&, bool)>& check) {
  std::uint64_t crashes = 0;
  for (const auto unsynced : {Unsynced::kLost, Unsynced::kKept, Unsynced::kTorn}) {
    for (std::uint64_t operation = 0, finished = 0; !finished; ++operation) {
      const TempDirectory temp;
      FaultyFileSystem fs(temp.path());
      prepare(fs, temp.path());
      fs.crash_at(operation);
      try {
        action(fs, temp.path());
        finished = 1;
      } catch (const Crash&) {
        ++crashes;
      }
      fs.restart(unsynced, operation);
      SCOPED_TRACE(concat("crash before operation ", operation, ", mode ", int(unsynced)));
      check(fs, temp.path(), finished);
    }
  }
  EXPECT_GT(crashes, 9u);
}

TEST(AtomicFile, OldOrNewAfterACrash) {
  crash_everywhere(
      [](auto& fs, auto& root) { write_file_atomically(fs, root / "f", "the old text"); },
      [](auto& fs, auto& root) { write_file_atomically(fs, root / "f", "the new"); },
      [](auto& fs, auto& root, bool finished) {
        const auto text = fs.read(root / "f");
        EXPECT_TRUE(text == "the new" || (!finished && text == "the old text")) << text;
        clean_leftovers(fs, root);
        EXPECT_EQ(fs.list(root), std::vector<std::string>{"f"});
      });
}

TEST(AtomicFile, UnsyncedRenameWouldBeNoticed) {
  // Leaves out the sync. The faulty file system must show this error.
  int torn = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const TempDirectory temp;
    FaultyFileSystem fs(temp.path());
    write_file_atomically(fs, temp.path() / "f", "the old text");
    fs.open(temp.path() / "t", OpenMode::kTruncate)->write(bytes_of("the new"));
    fs.rename(temp.path() / "t", temp.path() / "f");
    fs.sync_directory(temp.path());
    fs.restart(Unsynced::kTorn, seed);
    const auto text = fs.read(temp.path() / "f");
    torn += text != "the new" && text != "the old text";
  }
  EXPECT_GT(torn, 5);
}

TEST(AtomicFile, DiskFullAfterEveryByte) {
  const std::string text = "twenty-four bytes of it.";
  for (std::uint64_t room = 0; room <= text.size(); ++room) {
    const TempDirectory temp;
    FaultyFileSystem fs(temp.path());
    write_file_atomically(fs, temp.path() / "f", "old");
    fs.set_free_bytes(room);
    if (room == text.size()) {
      write_file_atomically(fs, temp.path() / "f", text);
      EXPECT_EQ(fs.read(temp.path() / "f"), text);
      continue;
    }
    try {
      write_file_atomically(fs, temp.path() / "f", text);
      FAIL() << "wrote " << text.size() << " bytes into " << room;
    } catch (const DiskFullError& error) {
      const std::string what = error.what();
      testing::expect_says(what, {"disk full", "24 bytes", temp.path("f")});
    }
    EXPECT_EQ(fs.read(temp.path() / "f"), "old");
    EXPECT_EQ(fs.list(temp.path()), std::vector<std::string>{"f"})
        << "the failed write left another file; room on the disk: " << room;
  }
}

TEST(AtomicFile, AMissingFolderIsNamedAndNotTheFileAside) {
  const TempDirectory temp;
  const auto folder = temp.path() / "folder";
  for (const auto& write : {+[](const std::filesystem::path& path) {
                              write_file_atomically(real_file_system(), path, "text");
                            },
                            +[](const std::filesystem::path& path) {
                              AtomicDirectory directory(real_file_system(), path);
                            }}) {
    EXPECT_EQ(testing::error_of([&] { write(folder / "file"); }),
              concat("cannot write ", (folder / "file").string(), ": there is no folder ",
                     folder.string(), "; make it first"));
  }
}

TEST(AtomicDirectory, CompleteOrAbsentAfterACrash) {
  crash_everywhere([](auto&, auto&) {},
                   [](auto& fs, auto& root) { write_directory(fs, root / "d", "content"); },
                   [](auto& fs, auto& root, bool finished) {
                     const auto content = read_directory(fs, root / "d");
                     EXPECT_TRUE(content == "content" || (!finished && content.empty()));
                     clean_leftovers(fs, root);
                     EXPECT_LE(fs.list(root).size(), 1u);
                   });
}

TEST(AtomicDirectory, OldOrNewAfterACrashWhileReplacing) {
  crash_everywhere([](auto& fs, auto& root) { write_directory(fs, root / "d", "old"); },
                   [](auto& fs, auto& root) { write_directory(fs, root / "d", "new!"); },
                   [](auto& fs, auto& root, bool finished) {
                     clean_leftovers(fs, root);
                     const auto content = read_directory(fs, root / "d");
                     EXPECT_TRUE(content == "new!" || (!finished && content == "old")) << content;
                     EXPECT_EQ(fs.list(root), std::vector<std::string>{"d"});
                   });
}

TEST(AtomicDirectory, TheOldOneStaysWhenTheNewOneCannotTakeItsPlace) {
  const TempDirectory temp;
  FaultyFileSystem fs(temp.path());
  write_directory(fs, temp.path() / "d", "old");
  for (const std::uint64_t rename : {0, 1}) {  // move the old one away, move the new one into place
    fs.refuse_rename(rename);
    EXPECT_THROW(write_directory(fs, temp.path() / "d", "new!"), Error);
    EXPECT_EQ(read_directory(fs, temp.path() / "d"), "old") << rename;
    EXPECT_EQ(fs.list(temp.path()), std::vector<std::string>{"d"}) << rename;
  }
  write_directory(fs, temp.path() / "d", "new!");
  EXPECT_EQ(read_directory(fs, temp.path() / "d"), "new!");
}

TEST(AtomicDirectory, NotesDigestsOfItsFiles) {
  const TempDirectory temp;
  AtomicDirectory directory(real_file_system(), temp.path() / "d");
  const auto file = directory.create("a");
  file->write(bytes_of("12345"));
  file->write(bytes_of("6789"));
  file->close();
  EXPECT_EQ(directory.digests().at("a"), (FileDigest{9, xxh64(bytes_of("123456789"))}));
  EXPECT_THROW(directory.create("a"), Error);
  for (const auto* name : {"", ".", "..", "../x", "a/b", "/x"})
    EXPECT_THROW(directory.create(name), Error) << name;
}

TEST(AtomicDirectory, UncommittedLeavesNothing) {
  const TempDirectory temp;
  {
    AtomicDirectory directory(real_file_system(), temp.path() / "d");
    directory.write("a", "x");
  }
  EXPECT_TRUE(real_file_system().list(temp.path()).empty());
}

TEST(CleanLeftovers, SparesOthersAndTheLiving) {
  const TempDirectory temp;
  auto& fs = real_file_system();
  const std::string parent = std::to_string(::getppid());
  for (const std::string name : {"d", ".d.tmp-x", ".tmp-5", ".hidden", ".d.tmp-0"})
    fs.create_directory(temp.path() / name);
  fs.create_directory(temp.path() / (".d.tmp-" + parent));
  fs.create_directory(temp.path() / ".d.tmp-2147483646");  // above every process number of Linux
  fs.create_directory(temp.path() / ".d.old-2147483646");
  fs.create_directory(temp.path() / ".e-1.old-2147483646");
  clean_leftovers(fs, temp.path());
  auto expected = std::vector<std::string>{"d",        ".d.tmp-x",         ".tmp-5", ".hidden",
                                           ".d.tmp-0", ".d.tmp-" + parent, "e-1"};
  std::ranges::sort(expected);
  EXPECT_EQ(fs.list(temp.path()), expected);
}

TEST(AtomicFile, WritesWhereALinkLeadsAndKeepsTheLink) {
  const TempDirectory temp;
  FileSystem& fs = real_file_system();
  const auto at = [&](const char* name) { return temp.path() / name; };
  fs.create_directory(at("elsewhere"));
  write_file_atomically(fs, at("elsewhere/old"), "old");
  stdfs::create_symlink("elsewhere/old", at("link"));
  stdfs::create_symlink("link", at("twice"));
  stdfs::create_symlink(at("elsewhere/new"), at("dangling"));
  stdfs::create_directory_symlink("elsewhere", at("folder"));
  write_file_atomically(fs, at("twice"), "first");
  EXPECT_EQ(fs.read(at("elsewhere/old")), "first");
  write_file_atomically(fs, at("dangling"), "second");
  EXPECT_EQ(fs.read(at("elsewhere/new")), "second");
  write_file_atomically(fs, at("folder/third"), "third");
  EXPECT_EQ(fs.list(at("elsewhere")), (std::vector<std::string>{"new", "old", "third"}));
  for (const char* const name : {"link", "twice", "dangling", "folder"})
    EXPECT_TRUE(stdfs::is_symlink(at(name))) << name;
}

TEST(AtomicFile, RefusesLinksInACircle) {
  const TempDirectory temp;
  const auto one = temp.path() / "one", two = temp.path() / "two";
  stdfs::create_symlink("two", one);
  stdfs::create_symlink("one", two);
  EXPECT_EQ(testing::error_of([&] { write_file_atomically(real_file_system(), one, "text"); }),
            concat(one.string(),
                   ": is a symbolic link that leads back to itself; name another "
                   "place, or remove the link"));
}

TEST(AtomicDirectory, IsMadeWhereALinkLeads) {
  const TempDirectory temp;
  FileSystem& fs = real_file_system();
  const auto real = temp.path() / "real", link = temp.path() / "link";
  stdfs::create_directory_symlink("real", link);
  // The link's target is created, then replaced.
  for (const char* const content : {"first", "second"}) {
    write_directory(fs, link, content);
    EXPECT_EQ(read_directory(fs, real), content);
    EXPECT_TRUE(stdfs::is_symlink(link));
  }
  EXPECT_EQ(fs.list(temp.path()), (std::vector<std::string>{"link", "real"}));
  stdfs::create_directory_symlink("real/", temp.path() / "slash");  // as a shell completes the path
  write_directory(fs, temp.path() / "slash/", "third");
  EXPECT_EQ(read_directory(fs, real), "third");
  stdfs::remove(temp.path() / "slash");
  stdfs::create_directory_symlink("made/here", temp.path() / "dangling");
  create_directories(fs, temp.path() / "dangling");
  EXPECT_TRUE(stdfs::is_directory(temp.path() / "made/here"));
}

}  // namespace
}  // namespace penstock
