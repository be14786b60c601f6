#include "penstock/base/mapped_file_fault.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstddef>
#include <filesystem>
#include <fstream>

#include "penstock/base/mapped_file.h"
#include "tests/base/temp_directory.h"

namespace penstock {
namespace {

TEST(MappedFileFaultDeathTest, AFileThatIsCutWhileItIsMappedIsNamed) {
  const testing::TempDirectory temp;
  const auto cut = temp.path() / "cut.bin", whole = temp.path() / "whole.bin";
  for (const auto& path : {cut, whole}) std::ofstream(path) << "text";
  const auto touch_after_cut = [&] {
    name_files_that_cannot_be_read();
    const MappedFile other(whole), file(cut);
    std::filesystem::resize_file(cut, 0);
    volatile std::byte first = file.bytes()[0];
    (void)first;
  };
  EXPECT_EXIT(touch_after_cut(), ::testing::ExitedWithCode(1),
              "penstock: .*cut.bin: cannot be read any more: it was cut short");
}

TEST(MappedFileFaultDeathTest, OtherBusErrorsEndTheProcessAsBefore) {
  const auto raised = [] {
    name_files_that_cannot_be_read();
    ::raise(SIGBUS);
  };
  EXPECT_EXIT(raised(), ::testing::KilledBySignal(SIGBUS), "");
}

}  // namespace
}  // namespace penstock
