#include "penstock/train/metrics_log.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>

#include "penstock/base/atomic_files.h"
#include "penstock/base/random.h"
#include "tests/base/faulty_file_system.h"
#include "tests/base/temp_directory.h"

namespace penstock {
namespace {

using testing::FaultyFileSystem;
using testing::TempDirectory;
using testing::Unsynced;

std::vector<int> steps_of(FileSystem& fs, const std::filesystem::path& path) {
  std::vector<int> out;
  for (const auto& line : read_metrics(fs, path)) out.push_back(line["step"].get<int>());
  return out;
}

TEST(MetricsLog, EveryStepOnceAfterAResume) {
  const TempDirectory temp;
  auto& fs = real_file_system();
  const auto path = temp.path() / "run" / "metrics.jsonl";
  {
    MetricsLog log(fs, path, 0);
    for (int step = 1; step <= 7; ++step) log.append({{"step", step}, {"pass", 1}});
  }
  {
    MetricsLog log(fs, path, 4);
    for (int step = 5; step <= 9; ++step) log.append({{"step", step}, {"pass", 2}});
  }
  EXPECT_EQ(steps_of(fs, path), (std::vector<int>{1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(read_metrics(fs, path)[3]["pass"], 1);
  EXPECT_EQ(read_metrics(fs, path)[4]["pass"], 2);
  { MetricsLog log(fs, path, 0); }
  EXPECT_EQ(fs.read(path), "");
}

TEST(MetricsLog, KeepsLoadsInTheFileAndLeavesThemOutInMemory) {
  const TempDirectory temp;
  auto& fs = real_file_system();
  const auto path = temp.path() / "metrics.jsonl";
  const std::string first =
      "{\"step\":1,\"load\":[[0.5,0.5],[0.25,0.75]],\"rank_load\":{\"max\":2},"
      "\"validation\":{\"load\":[[1,0]],\"loss\":3}}\n";
  write_file_atomically(fs, path, first + "{\"step\":2,\"load\":[]}\n");
  const auto lines = read_metrics(fs, path);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].dump(),
            "{\"step\":1,\"rank_load\":{\"max\":2},"
            "\"validation\":{\"load\":[[1,0]],\"loss\":3}}");
  EXPECT_EQ(lines[1].dump(), "{\"step\":2}");
  MetricsLog log(fs, path, 1);
  EXPECT_EQ(fs.read(path), first);
}

TEST(MetricsLog, DropsTornForeignAndRepeatedLines) {
  const TempDirectory temp;
  auto& fs = real_file_system();
  const auto path = temp.path() / "metrics.jsonl";
  write_file_atomically(fs, path,
                        "{\"step\":1}\n{\"step\":2}\n{\"step\":2,\"again\":1}\nnonsense\n[]\n"
                        "{\"loss\":1}\n\n{\"step\":3}\n{\"step\":4,\"lo");
  EXPECT_EQ(steps_of(fs, path), (std::vector<int>{1, 2, 2, 3}));
  EXPECT_TRUE(read_metrics(fs, temp.path() / "absent").empty());
  MetricsLog log(fs, path, 10);
  EXPECT_EQ(fs.read(path), "{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n");
  log.append({{"step", 4}});
  EXPECT_EQ(steps_of(fs, path), (std::vector<int>{1, 2, 3, 4}));
  EXPECT_THROW(log.append({{"step", 4}}), AssertionError);
  EXPECT_THROW(log.append({{"loss", 1}}), AssertionError);
}

TEST(MetricsLog, SaysWhichStepsAreMissing) {
  const TempDirectory temp;
  auto& fs = real_file_system();
  const auto path = temp.path() / "metrics.jsonl";
  const auto missing = [&](const std::string& text, std::int64_t step) {
    write_file_atomically(fs, path, text);
    return MetricsLog(fs, path, step).missing_steps();
  };
  EXPECT_EQ(MetricsLog(fs, temp.path() / "absent", 3).missing_steps(), "1-3");
  EXPECT_EQ(MetricsLog(fs, temp.path() / "new", 0).missing_steps(), "");
  EXPECT_EQ(missing("{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n", 2), "");
  EXPECT_EQ(missing("{\"step\":1}\nnonsense\n{\"step\":3}\n{\"step\":6}\n", 8), "2, 4-5, 7-8");
  EXPECT_EQ(missing("{\"step\":3}\n", 1), "1");
}

TEST(MetricsLog, NumbersReadBackToTheSameBits) {
  const TempDirectory temp;
  auto& fs = real_file_system();
  const auto path = temp.path() / "metrics.jsonl";
  std::vector<double> values;
  MetricsLog log(fs, path, 0);
  for (std::uint64_t i = 0; values.size() < 2000; ++i) {
    const auto bits = random_bits(1, 2, i);
    double value = 0;
    std::memcpy(&value, &bits, sizeof value);
    if (!std::isfinite(value)) continue;
    values.push_back(value);
    log.append({{"step", values.size()}, {"v", value}});
  }
  const auto lines = read_metrics(fs, path);
  ASSERT_EQ(lines.size(), values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double value = lines[i]["v"].get<double>();
    EXPECT_EQ(std::memcmp(&value, &values[i], sizeof value), 0) << values[i];
  }
}

TEST(MetricsLog, WhatJsonLacksIsWrittenAsNull) {
  const TempDirectory temp;
  auto& fs = real_file_system();
  const auto path = temp.path() / "metrics.jsonl";
  MetricsLog log(fs, path, 0);
  log.append({{"step", 1}, {"loss", NAN}, {"norm", INFINITY}, {"name", "\xff"}});
  EXPECT_EQ(fs.read(path), "{\"step\":1,\"loss\":null,\"norm\":null,\"name\":\"\xef\xbf\xbd\"}\n");
}

TEST(MetricsLog, SyncedLinesSurviveACrash) {
  for (const auto unsynced : {Unsynced::kLost, Unsynced::kKept, Unsynced::kTorn}) {
    for (std::uint64_t seed = 0; seed < 12; ++seed) {
      const TempDirectory temp;
      FaultyFileSystem fs(temp.path());
      const auto path = temp.path() / "metrics.jsonl";
      {
        MetricsLog log(fs, path, 0);
        for (int step = 1; step <= 3; ++step) log.append({{"step", step}});
        log.sync();
        for (int step = 4; step <= 6; ++step) log.append({{"step", step}});
      }
      fs.restart(unsynced, seed);
      { MetricsLog log(fs, path, 3); }
      EXPECT_EQ(steps_of(fs, path), (std::vector<int>{1, 2, 3}));
    }
  }
}

}  // namespace
}  // namespace penstock
