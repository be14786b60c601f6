// The copies from which a checkpoint is written while training continues.
// tests/train/run_saver_test.cpp has what waits for what.
#include "penstock/train/checkpoints/checkpoint_writer.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "penstock/base/file_system.h"
#include "penstock/train/checkpoints/checkpoints.h"
#include "tests/base/forwarding_file_system.h"
#include "tests/base/temp_directory.h"

namespace penstock {
namespace {

using testing::ForwardingFileSystem;
using testing::TempDirectory;

TEST(CheckpointWriter, CopiesWhatOthersReferToIntoMemoryThatIsKept) {
  const TempDirectory directory;
  std::map<std::size_t, const void*> written;  // the last buffer of each size
  ForwardingFileSystem files([&](const FileSystem::Path&, Bytes bytes) {
    written[bytes.size()] = bytes.data();
    return bytes.size();
  });
  constexpr std::size_t kLive = 24, kRow = 12, kGathered = 16;  // bytes
  CheckpointStore store(files, directory.path(), {.keep_last = 9});
  int before = 0;
  CheckpointWriter writer(store, [&] { ++before; });
  const at::Tensor live = torch::zeros({2, 3});
  const void *copy = nullptr, *copy_of_row = nullptr;
  for (std::int64_t step = 1; step <= 3; ++step) {
    live.fill_(static_cast<double>(step));
    DueCheckpoint due{.step = step, .contents = {.model = {{"gathered", torch::ones({4})}}}};
    const void* gathered = due.contents.model.at("gathered").data_ptr();
    due.contents.model["live"] = live;
    due.contents.model["row"] = live[1];
    if (step == 1) writer.make_room(due.contents);
    writer.wait();
    writer.write(std::move(due), Training::goes_on);
    live.fill_(-1);
    writer.wait();
    EXPECT_TRUE(writer.done());
    EXPECT_EQ(written.at(kGathered), gathered) << step;
    EXPECT_NE(written.at(kLive), live.data_ptr());
    EXPECT_NE(written.at(kRow), live[1].data_ptr());
    EXPECT_TRUE(step == 1 || written.at(kLive) == copy) << step;
    EXPECT_TRUE(step == 1 || written.at(kRow) == copy_of_row) << step;
    copy = written.at(kLive);
    copy_of_row = written.at(kRow);
    EXPECT_TRUE(torch::equal(store.load(step).model.at("live"),
                             torch::full({2, 3}, static_cast<double>(step))));
  }
  EXPECT_EQ(before, 3);
  writer.write({.step = 4, .contents = {.model = {{"live", live}}}}, Training::waits);
  EXPECT_EQ(written.at(kLive), live.data_ptr());
}

}  // namespace
}  // namespace penstock
