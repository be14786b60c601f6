// Checkpoints with a crash before each operation, a disk that is full after each byte, and damage
// to each file.
#include "penstock/train/checkpoints/checkpoints.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "penstock/base/atomic_files.h"
#include "penstock/dist/lost_rank.h"
#include "penstock/train/checkpoints/checkpoint_manifest.h"
#include "tests/base/error_of.h"
#include "tests/base/faulty_file_system.h"
#include "tests/base/temp_directory.h"

namespace penstock {
namespace {

using testing::Crash;
using testing::FaultyFileSystem;
using testing::TempDirectory;
using testing::Unsynced;

/// Contents whose every file contains `step`.
CheckpointContents contents_of(std::int64_t step) {
  const auto value = static_cast<double>(step);
  return {
      .model = {{"w", torch::full({3, 2}, value)}, {"b", torch::full({2}, value, torch::kDouble)}},
      .config_json = concat("{\"step\": ", step, "}"),
      .files = {{"tokenizer.json", concat("tokens ", step)}},
      .optimizer = {{"w.m", torch::full({3, 2}, value + 0.5)}},
      .trainer = {{"step", step}, {"lambda", 1e-8}}};
}

void expect_contents(CheckpointStore& store, std::int64_t step) {
  const auto expected = contents_of(step);
  const auto loaded = store.load(step);
  const auto same = [](const TensorMap& a, const TensorMap& b) {
    return std::ranges::equal(a, b, [](const auto& x, const auto& y) {
      return x.first == y.first && torch::equal(x.second, y.second);
    });
  };
  EXPECT_TRUE(same(loaded.model, expected.model)) << step;
  EXPECT_TRUE(same(loaded.optimizer, expected.optimizer)) << step;
  EXPECT_EQ(loaded.config_json, expected.config_json);
  EXPECT_EQ(loaded.files, expected.files);
  EXPECT_EQ(loaded.trainer, expected.trainer);
}

std::set<std::string> names_in(FileSystem& fs, const std::filesystem::path& run) {
  const auto names = fs.list(run / "checkpoints");
  return {names.begin(), names.end()};
}

std::optional<std::int64_t> latest_step(CheckpointStore& store) {
  const auto search = store.latest();
  return search.found ? std::optional(search.found->step) : std::nullopt;
}

TEST(Checkpoints, StepsAreThoseOfTheFolderAlone) {
  const TempDirectory temp;
  CheckpointStore store(real_file_system(), temp.path(), {.keep_last = 3});
  EXPECT_EQ(store.steps(), std::vector<std::int64_t>());  // the folder does not exist
  for (const std::int64_t step : {20, 5, 100}) store.save(step, contents_of(step));
  for (const char* name : {"step-x", "step-07", "other"})
    std::filesystem::create_directory(temp.path() / "checkpoints" / name);
  EXPECT_EQ(store.steps(), (std::vector<std::int64_t>{5, 20, 100}));
}

TEST(Checkpoints, RoundTrip) {
  const TempDirectory temp;
  CheckpointStore store(real_file_system(), temp.path());
  EXPECT_FALSE(store.latest().found);
  store.save(5, contents_of(5), 2.5);
  const auto latest = store.latest();
  ASSERT_TRUE(latest.found);
  EXPECT_EQ(latest.found->step, 5);
  EXPECT_EQ(latest.found->validation_loss, 2.5);
  EXPECT_EQ(latest.found->directory, temp.path() / "checkpoints" / "step-5");
  EXPECT_TRUE(latest.ignored.empty());
  expect_contents(store, 5);
  EXPECT_THROW(store.load(6), Error);
  EXPECT_EQ(SafetensorsFile(store.directory(5) / "model.safetensors").metadata().at("format"),
            "pt");
}

TEST(Checkpoints, EqualContentsGiveEqualFiles) {
  const TempDirectory a, b;
  CheckpointStore(real_file_system(), a.path()).save(5, contents_of(5), 1.25);
  CheckpointStore(real_file_system(), b.path()).save(5, contents_of(5), 1.25);
  auto& fs = real_file_system();
  const auto names = fs.list(a.path() / "checkpoints/step-5");
  EXPECT_EQ(names.size(), 6u);
  for (const auto& name : names)
    EXPECT_EQ(fs.read(a.path() / "checkpoints/step-5" / name),
              fs.read(b.path() / "checkpoints/step-5" / name));
}

TEST(Checkpoints, KeepsTheLastAndTheBest) {
  const TempDirectory temp;
  auto& fs = real_file_system();
  CheckpointStore store(fs, temp.path(), {.keep_last = 2, .keep_best = true});
  const std::pair<int, std::optional<double>> saves[] = {{1, 3.0}, {2, 1.0},          {3, NAN},
                                                         {4, 1.0}, {5, std::nullopt}, {10, 2.0}};
  for (const auto& [step, loss] : saves) store.save(step, contents_of(step), loss);
  EXPECT_EQ(names_in(fs, temp.path()), (std::set<std::string>{"step-2", "step-5", "step-10"}));
  EXPECT_EQ(store.best().found->step, 2);
  EXPECT_EQ(store.latest().found->step, 10);
  store.save(11, contents_of(11), 0.5);
  EXPECT_EQ(names_in(fs, temp.path()), (std::set<std::string>{"step-10", "step-11"}));

  CheckpointStore last_only(fs, temp.path(), {.keep_last = 1, .keep_best = false});
  last_only.save(12, contents_of(12), 9.0);
  EXPECT_EQ(names_in(fs, temp.path()), std::set<std::string>{"step-12"});
  last_only.save(13, contents_of(13), std::nullopt, Superseded::keep);
  EXPECT_EQ(names_in(fs, temp.path()), (std::set<std::string>{"step-12", "step-13"}));
  EXPECT_THROW(CheckpointStore(fs, temp.path(), {.keep_last = 0}), Error);
}

TEST(Checkpoints, ANewOneIsNeverPushedOutByLaterSteps) {
  const TempDirectory temp;
  CheckpointStore store(real_file_system(), temp.path(), {.keep_last = 1, .keep_best = false});
  store.save(9, contents_of(9));
  std::ofstream(store.directory(9) / "model.safetensors", std::ios::in) << "damaged";
  store.save(4, contents_of(4));
  EXPECT_EQ(latest_step(store), 4);
  store.save(9, contents_of(9));  // replaces the damaged checkpoint
  EXPECT_EQ(latest_step(store), 9);
  expect_contents(store, 9);
}

TEST(Checkpoints, DamagedOnesAreIgnoredAndNamed) {
  auto& fs = real_file_system();
  const TempDirectory pristine;
  CheckpointStore(fs, pristine.path()).save(2, contents_of(2));
  const auto names = fs.list(pristine.path() / "checkpoints/step-2");
  for (const auto& name : names) {
    for (const std::string damage : {"flip", "shorten", "remove"}) {
      const TempDirectory temp;
      CheckpointStore store(fs, temp.path());
      store.save(1, contents_of(1), 2.0);
      store.save(2, contents_of(2), 1.0);
      const auto path = store.directory(2) / name;
      std::string bytes = fs.read(path);
      if (damage == "flip")
        bytes[bytes.size() / 2] ^= 4;
      else
        bytes.resize(bytes.size() - 2);
      if (damage == "remove")
        fs.remove_all(path);
      else
        write_file_atomically(fs, path, bytes);
      for (const auto& search : {store.latest(), store.best()}) {
        ASSERT_TRUE(search.found) << name << " " << damage;
        EXPECT_EQ(search.found->step, 1) << name << " " << damage;
        ASSERT_EQ(search.ignored.size(), 1u);
        testing::expect_says(search.ignored[0], {"step-2"});
      }
      EXPECT_THROW(store.load(2), Error);
    }
  }
}

TEST(Checkpoints, WhatIsPassedOverIsNamedNewestFirst) {
  const TempDirectory temp;
  auto& fs = real_file_system();
  CheckpointStore store(fs, temp.path(), {.keep_last = 4});
  for (const int step : {8, 9, 10, 11}) store.save(step, contents_of(step));
  // Some damage shows in the list of files, some only when the contents are read.
  fs.remove_all(store.directory(9) / kManifestName);
  fs.remove_all(store.directory(11) / "config.json");
  write_file_atomically(fs, store.directory(10) / "config.json", "{\"step\": 11}");
  const auto search = store.latest();
  ASSERT_TRUE(search.found);
  EXPECT_EQ(search.found->step, 8);
  ASSERT_EQ(search.ignored.size(), 3u);
  for (const std::size_t i : {0, 1, 2})
    testing::expect_says(search.ignored[i], {concat("step-", 11 - i)});
}

/// Weights of 36 MiB are read for their checksum in pieces of 16 MiB, the four other files in one
/// piece each.
TEST(Checkpoints, SayThatTheyAreReadPieceByPiece) {
  const TempDirectory temp;
  CheckpointStore store(real_file_system(), temp.path());
  CheckpointContents contents = contents_of(1);
  contents.model["large"] = torch::ones({9 << 20});
  store.save(1, contents);
  int pieces = 0;
  EXPECT_EQ(store.latest([&] { ++pieces; }).found->step, 1);
  EXPECT_EQ(pieces, 3 + 4);
  const auto lost = [] { throw dist::LostRank("rank 1 is gone"); };
  EXPECT_THROW(store.latest(lost), dist::LostRank);
  const std::string path = (store.directory(1) / "model.safetensors").string();
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-1, std::ios::end).put('x');  // in the last piece
  file.close();
  const auto search = store.latest();
  EXPECT_FALSE(search.found);
  ASSERT_EQ(search.ignored.size(), 1u);
  testing::expect_says(search.ignored[0], {"checksum differs"});
}

TEST(Checkpoints, OtherNamesAreNoCheckpoints) {
  const TempDirectory temp;
  auto& fs = real_file_system();
  CheckpointStore store(fs, temp.path());
  store.save(1, contents_of(1));
  for (const std::string name :
       {"step-", "step-x", "step-02", "step--3", "step-99999999999999999999", "notes"})
    fs.create_directory(temp.path() / "checkpoints" / name);
  std::filesystem::copy(store.directory(1), temp.path() / "checkpoints" / "step-7");  // misnamed
  const auto search = store.latest();
  EXPECT_EQ(search.found->step, 1);
  EXPECT_EQ(search.ignored.size(), 1u);
}

TEST(Checkpoints, ManifestsFromOutsideAreChecked) {
  const CheckpointManifest manifest{.step = 3, .validation_loss = 0.1, .files = {{"a", {5, 7}}}};
  const auto text = manifest_text(manifest);
  EXPECT_EQ(parse_manifest(text).files, manifest.files);
  EXPECT_EQ(parse_manifest(text).validation_loss, 0.1);
  EXPECT_THROW(parse_manifest(manifest_text({.files = {{"../a", {}}}})), Error);
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] ^= 1;
    try {
      // Only white space may differ.
      EXPECT_EQ(manifest_text(parse_manifest(changed)), text) << changed;
    } catch (const Error&) {
    }
    EXPECT_THROW(parse_manifest(text.substr(0, i)), Error);
    if (i + 2 == text.size()) break;  // complete without its last newline
  }
}

/// Saves step 1, then crashes the machine while step 2 is saved.
TEST(Checkpoints, EarlierOrNewAfterACrashAnywhere) {
  int crashes = 0, new_ones = 0;
  for (const auto unsynced : {Unsynced::kLost, Unsynced::kKept, Unsynced::kTorn}) {
    for (const bool same_step : {false, true}) {
      bool finished = false;
      for (std::uint64_t operation = 0; !finished; ++operation) {
        const TempDirectory temp;
        FaultyFileSystem fs(temp.path());
        const auto run = temp.path() / "run";
        const CheckpointPolicy policy{.keep_last = 1, .keep_best = false};
        CheckpointStore(fs, run, policy).save(1, contents_of(1));
        const std::int64_t step = same_step ? 1 : 2;
        fs.crash_at(operation);
        try {
          CheckpointStore(fs, run, policy).save(step, contents_of(step));
          finished = true;
        } catch (const Crash&) {
          ++crashes;
        }
        fs.restart(unsynced, operation);
        SCOPED_TRACE(concat("crash before operation ", operation, ", mode ", int(unsynced)));
        CheckpointStore store(fs, run, policy);
        store.recover();
        const auto search = store.latest();
        ASSERT_TRUE(search.found);
        EXPECT_TRUE(search.ignored.empty()) << search.ignored[0];
        EXPECT_TRUE(search.found->step == step || (!finished && search.found->step == 1));
        expect_contents(store, search.found->step);
        new_ones += search.found->step == 2;
        for (const auto& name : fs.list(run / "checkpoints"))
          EXPECT_TRUE(name.starts_with("step-")) << "a leftover: " << name;
        store.save(3, contents_of(3));
        EXPECT_EQ(latest_step(store), 3);
      }
    }
  }
  EXPECT_GT(crashes, 100);
  EXPECT_GT(new_ones, 10);
}

TEST(Checkpoints, TheFirstIsCompleteOrAbsent) {
  for (const auto unsynced : {Unsynced::kLost, Unsynced::kKept, Unsynced::kTorn}) {
    bool finished = false;
    for (std::uint64_t operation = 0; !finished; ++operation) {
      const TempDirectory temp;
      FaultyFileSystem fs(temp.path());
      const auto run = temp.path() / "runs" / "run";
      fs.crash_at(operation);
      try {
        CheckpointStore(fs, run).save(1, contents_of(1));
        finished = true;
      } catch (const Crash&) {
      }
      fs.restart(unsynced, operation);
      CheckpointStore store(fs, run);
      const auto search = store.latest();
      EXPECT_TRUE(search.ignored.empty()) << search.ignored[0];
      EXPECT_TRUE(search.found || !finished);
      if (search.found) expect_contents(store, 1);
    }
  }
}

TEST(Checkpoints, DiskFullLeavesTheEarlierOne) {
  std::uint64_t room = 0;
  for (bool finished = false; !finished; room += 5) {
    const TempDirectory temp;
    FaultyFileSystem fs(temp.path());
    CheckpointStore store(fs, temp.path(), {.keep_last = 1, .keep_best = false});
    store.save(1, contents_of(1));
    fs.set_free_bytes(room);
    try {
      store.save(2, contents_of(2));
      finished = true;
      EXPECT_EQ(latest_step(store), 2);
      continue;
    } catch (const DiskFullError& error) {
      const std::string what = error.what();
      for (const auto* part : {"disk full", "step 2", "64 bytes", "Nothing saved before is lost"})
        ASSERT_NE(what.find(part), std::string::npos) << what;
    }
    ASSERT_EQ(names_in(fs, temp.path()), std::set<std::string>{"step-1"}) << room;
    const auto search = store.latest();
    ASSERT_TRUE(search.found && search.ignored.empty()) << room;
    expect_contents(store, 1);
    fs.set_free_bytes(FaultyFileSystem::kNever);
    store.save(2, contents_of(2));
    ASSERT_EQ(latest_step(store), 2) << room;
  }
  EXPECT_GT(room, 500u);
}

}  // namespace
}  // namespace penstock
