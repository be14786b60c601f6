// A checkpoint whose pieces are written by several ranks: with a crash before each operation, with
// a disk that becomes full, and with ranks that never write.
#include "penstock/train/checkpoints/checkpoint_pieces.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include "penstock/io/safetensors.h"
#include "penstock/train/checkpoints/checkpoint_writer.h"
#include "penstock/train/checkpoints/checkpoints.h"
#include "tests/base/faulty_file_system.h"
#include "tests/base/forwarding_file_system.h"
#include "tests/base/temp_directory.h"

namespace penstock {
namespace {

using testing::Crash;
using testing::FaultyFileSystem;
using testing::TempDirectory;
using testing::Unsynced;

constexpr int kRanks = 3;

/// Rank 2 has moments only.
CheckpointContents contents_of(std::int64_t step, int rank) {
  const std::string name = concat("w", rank);
  const auto value = static_cast<double>(10 * step + rank);
  CheckpointContents out{.config_json = "{}", .trainer = {{"step", step}}};
  if (rank < 2) out.model[name] = torch::full({3, 2}, value);
  out.optimizer["m." + name] = torch::full({5}, value);
  return out;
}

void save_pieces(FileSystem& fs, const CheckpointStore& store, const AtomicDirectory& directory,
                 std::int64_t step) {
  ASSERT_EQ(store.directory(step).parent_path(), directory.temporary().parent_path());
  for (int rank = 1; rank < kRanks; ++rank) {
    const CheckpointContents contents = contents_of(step, rank);
    save_piece(fs, {directory.temporary(), rank, kRanks}, step, contents.model, contents.optimizer);
  }
}

void save(FileSystem& fs, CheckpointStore& store, std::int64_t step) {
  const auto directory = store.begin(step);
  save_pieces(fs, store, *directory, step);
  store.save(step, contents_of(step, 0), 1.5, Superseded::remove,
             SharedCheckpoint{.directory = directory, .ranks = kRanks});
}

void expect_step(const CheckpointContents& found, std::int64_t step) {
  EXPECT_EQ(found.model.size(), 2U);
  EXPECT_EQ(found.optimizer.size(), 3U);
  EXPECT_TRUE(found.files.empty());
  for (int rank = 0; rank < kRanks; ++rank) {
    const CheckpointContents expected = contents_of(step, rank);
    for (const auto& [name, value] : expected.model)
      EXPECT_TRUE(torch::equal(found.model.at(name), value)) << name;
    for (const auto& [name, value] : expected.optimizer)
      EXPECT_TRUE(torch::equal(found.optimizer.at(name), value)) << name;
  }
}

TEST(CheckpointPieces, AreShardsUnderHuggingFacesNames) {
  const TempDirectory temp;
  FileSystem& fs = real_file_system();
  CheckpointStore store(fs, temp.path());
  save(fs, store, 4);
  EXPECT_EQ(fs.list(store.directory(4)),
            (std::vector<std::string>{
                "config.json", "manifest.json", "model-00001-of-00003.safetensors",
                "model-00002-of-00003.safetensors", "model.safetensors.index.json",
                "optimizer-00001-of-00003.safetensors", "optimizer-00002-of-00003.safetensors",
                "optimizer-00003-of-00003.safetensors", "trainer.json"}));
  const auto index =
      nlohmann::json::parse(fs.read(store.directory(4) / "model.safetensors.index.json"));
  EXPECT_EQ(index.at("metadata").at("total_size"), 2 * 6 * 4);
  EXPECT_EQ(index.at("weight_map"), (nlohmann::json{{"w0", "model-00001-of-00003.safetensors"},
                                                    {"w1", "model-00002-of-00003.safetensors"}}));
  expect_step(store.load(4), 4);
  expect_step(open_checkpoint(fs, store.directory(4)), 4);
  EXPECT_EQ(store.latest().found->validation_loss, 1.5);
  EXPECT_EQ(SafetensorsModel(store.directory(4)).metadata().at("format"), "pt");
  // A missing piece is damage.
  fs.remove_all(store.directory(4) / "optimizer-00002-of-00003.safetensors");
  EXPECT_FALSE(store.latest().found);
}

TEST(CheckpointPieces, AreEarlierOrNewAfterACrashAnywhere) {
  int crashes = 0, new_ones = 0;
  for (const auto unsynced : {Unsynced::kLost, Unsynced::kKept, Unsynced::kTorn}) {
    bool finished = false;
    for (std::uint64_t operation = 0; !finished; ++operation) {
      const TempDirectory temp;
      FaultyFileSystem fs(temp.path());
      const CheckpointPolicy policy{.keep_last = 1, .keep_best = false};
      CheckpointStore store(fs, temp.path() / "run", policy);
      save(fs, store, 1);
      fs.crash_at(operation);
      try {
        save(fs, store, 2);
        finished = true;
      } catch (const Crash&) {
        ++crashes;
      }
      fs.restart(unsynced, operation);
      SCOPED_TRACE(concat("crash before operation ", operation, ", mode ", int(unsynced)));
      store.recover();
      const auto search = store.latest();
      ASSERT_TRUE(search.found);
      EXPECT_TRUE(search.ignored.empty()) << search.ignored[0];
      EXPECT_TRUE(search.found->step == 2 || !finished);
      expect_step(store.load(search.found->step), search.found->step);
      new_ones += search.found->step == 2;
      for (const auto& name : fs.list(temp.path() / "run/checkpoints"))
        EXPECT_TRUE(name.starts_with("step-"))
            << "a file of an unfinished checkpoint is left: " << name;
    }
  }
  EXPECT_GT(crashes, 60);
  EXPECT_GT(new_ones, 3);
}

/// The full disk may be the disk of any rank.
TEST(CheckpointPieces, LeaveTheEarlierOneOnAFullDisk) {
  std::uint64_t room = 0;
  for (bool finished = false; !finished; room += 97) {
    const TempDirectory temp;
    FaultyFileSystem fs(temp.path());
    CheckpointStore store(fs, temp.path(), {.keep_last = 1, .keep_best = false});
    save(fs, store, 1);
    fs.set_free_bytes(room);
    try {
      save(fs, store, 2);
      finished = true;
      continue;
    } catch (const DiskFullError& error) {
      const std::string what = error.what();
      for (const auto* part : {"disk full", "step 2", " bytes", "Nothing saved before is lost"})
        ASSERT_NE(what.find(part), std::string::npos) << what;
    }
    ASSERT_EQ(fs.list(temp.path() / "checkpoints"), std::vector<std::string>{"step-1"}) << room;
    expect_step(store.load(1), 1);
  }
  EXPECT_GT(room, 1000U);
}

TEST(CheckpointPieces, AreWaitedForUntilTheWriterIsGivenUp) {
  const TempDirectory temp;
  FileSystem& fs = real_file_system();
  CheckpointStore store(fs, temp.path());
  const auto due = [&](std::int64_t step) {
    DueCheckpoint out{.step = step, .contents = contents_of(step, 0)};
    out.shared = SharedCheckpoint{.directory = store.begin(step), .ranks = kRanks};
    return out;
  };
  {
    CheckpointWriter writer(store, [] {});
    DueCheckpoint first = due(1);
    const auto directory = first.shared->directory;
    writer.start(std::move(first), Training::goes_on);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_FALSE(writer.done());
    EXPECT_TRUE(store.steps().empty());
    save_pieces(fs, store, *directory, 1);
    writer.wait();
    expect_step(store.load(1), 1);
    // A piece that a rank reports by a message counts as a piece with a note.
    DueCheckpoint second = due(2);
    const auto reported = second.shared->reported;
    const auto place = second.shared->directory->temporary();
    writer.start(std::move(second), Training::goes_on);
    for (int rank = 1; rank < kRanks; ++rank) {
      const CheckpointContents contents = contents_of(2, rank);
      const WrittenPiece piece =
          write_piece(fs, {place, rank, kRanks}, contents.model, contents.optimizer);
      reported->put(rank, parse_piece(piece_text(piece), "a test"));
    }
    writer.wait();
    expect_step(store.load(2), 2);
    writer.start(due(3), Training::goes_on);
  }
  EXPECT_EQ(fs.list(temp.path() / "checkpoints"), (std::vector<std::string>{"step-1", "step-2"}));
}

/// Moves the folder as soon as the note appears, as rank 0 does when it commits.
class TakenAtOnce : public testing::ForwardingFileSystem {
 public:
  TakenAtOnce() : ForwardingFileSystem([](const Path&, Bytes bytes) { return bytes.size(); }) {}
  void rename(const Path& from, const Path& to) override {
    ForwardingFileSystem::rename(from, to);
    if (to.filename().string().starts_with("piece-"))
      std::filesystem::rename(to.parent_path(), to.parent_path().string() + "-taken");
  }
};

TEST(CheckpointPieces, AreLeftAloneOnceTheyAreNoted) {
  const TempDirectory temp;
  const std::filesystem::path place = temp.path() / "made";
  std::filesystem::create_directory(place);
  TakenAtOnce fs;
  const CheckpointContents contents = contents_of(1, 1);
  save_piece(fs, {place, 1, kRanks}, 1, contents.model, contents.optimizer);
  EXPECT_TRUE(noted_piece(fs, {temp.path() / "made-taken", 1, kRanks}));
}

TEST(CheckpointPieces, ThatSayNonsenseAreRefused) {
  for (const std::string text : {"", "{", "{}", R"({"files": 3, "tensors": [], "model_bytes": 0})",
                                 R"({"files": {"a": [1]}, "tensors": [], "model_bytes": 0})"})
    EXPECT_THROW(parse_piece(text, "a test"), Error) << text;
}

}  // namespace
}  // namespace penstock
