// The command line that repeats a fine-tuning. run_test.cpp tests the records of whole runs.
#include "penstock/finetune/run_record.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "penstock/io/toml.h"

namespace penstock {
namespace {

TEST(FinetuneCommand, RepeatsWhatDiffersFromTheProtocolQuotedForAShell) {
  ConfigNode settings;
  apply_overrides(settings,
                  std::vector<std::string>{"lr=3e-4", "test_k=[1,2]", "lr_schedule=linear"});
  FinetuneRecord record{.model = "runs/my model",
                        .data = "sst2",
                        .task = ClassificationFormat::kSst2,
                        .finetune = read_finetune_config(settings)};
  EXPECT_EQ(finetune_command(record, "runs/it's"),
            "penstock finetune 'runs/my model' --data sst2 --task sst2 --set lr=3e-04 "
            "--set 'lr_schedule=\"linear\"' --set 'test_k=[1, 2]' --out 'runs/it'\\''s-again'");
  settings = {};
  apply_overrides(settings, std::vector<std::string>{"protocol=authors", "steps=10"});
  record.finetune = read_finetune_config(settings);
  const std::string command = finetune_command(record, "out");
  EXPECT_NE(command.find(" --set protocol=authors --set steps=10 --out out-again"),
            std::string::npos)
      << command;
}

}  // namespace
}  // namespace penstock
