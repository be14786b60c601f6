// The limit of open files of processes that are ranks or keep the table of ranks.
#include "penstock/dist/open_files.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <future>
#include <string>

#include "penstock/dist/group.h"
#include "penstock/dist/key_server.h"
#include "penstock/dist/transport.h"
#include "tests/dist/open_files_limit.h"
#include "tests/dist/ranks.h"

namespace penstock::dist {
namespace {

using testing::lowest_free_file;
using testing::open_files_limit;
using testing::OpenFilesLimit;

/// A soft limit with room for the table and two ranks.
rlim_t small_limit() { return lowest_free_file() + 100; }

TEST(OpenFiles, AreAsManyAsTheSystemAllowsWhereATableIsKept) {
  const OpenFilesLimit small(small_limit());
  ASSERT_LT(open_files_limit().rlim_cur, open_files_limit().rlim_max);
  const KeyServer server("127.0.0.1", 0);
  EXPECT_EQ(open_files_limit().rlim_cur, open_files_limit().rlim_max);
}

TEST(OpenFiles, AreAsManyAsTheSystemAllowsForARank) {
  if (!has_transport()) GTEST_SKIP() << "built without Gloo";
  const KeyServer table = testing::table_of_job(2);
  const OpenFilesLimit small(small_limit());
  const auto join = [&](int rank) {
    ProcessGroup::join({.rank = rank, .size = 2, .address = "127.0.0.1", .port = table.port()})
        .leave();
  };
  auto other = std::async(std::launch::async, join, 1);
  join(0);
  other.get();
  EXPECT_EQ(open_files_limit().rlim_cur, open_files_limit().rlim_max);
}

TEST(OpenFiles, AreNamedWhereTheyRunOut) {
  const OpenFilesLimit small(small_limit());
  EXPECT_TRUE(too_many_open_files(EMFILE));
  EXPECT_TRUE(too_many_open_files(ENFILE));
  EXPECT_FALSE(too_many_open_files(ECONNREFUSED));
  EXPECT_NE(open_files_text(EMFILE).find(std::to_string(open_files_limit().rlim_cur)),
            std::string::npos);
  EXPECT_NE(open_files_text(ENFILE).find("fs.file-max"), std::string::npos);
}

}  // namespace
}  // namespace penstock::dist
