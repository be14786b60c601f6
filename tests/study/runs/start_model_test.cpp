// The study's errors if a run's model cannot be upcycled as its file asks, or is damaged.
#include "penstock/study/runs/start_model.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <utility>

#include "penstock/io/toml.h"
#include "penstock/train/checkpoints/checkpoint_manifest.h"
#include "tests/base/error_of.h"
#include "tests/convert/tiny_parent.h"
#include "tests/study/fixture.h"

namespace penstock::study {
namespace {

TEST(StartModel, ErrorsOfUpcyclingNameTheKeysOfTheStudy) {
  const testing::TemporaryDirectory folder;
  penstock::testing::write_parent(folder.path("dense"), penstock::testing::tiny_config());
  const auto refusal = [&](const std::string& keys) {
    const ConfigNode upcycle = parse_toml("method = \"vanilla\"\n" + keys, "s.toml");
    const ConfigNode recipe = parse_toml(
        "[data]\ncorpus = \"corpus\"\n[model.router]\nmethod = \"dense\"\n[run]\nthreads = 1",
        "r.toml");
    return penstock::testing::error_or("made", [&] {
      begin_with(folder.path("dense"), upcycle, recipe, folder.path("moe"), folder.path("keys"),
                 /*force=*/false, nullptr);
    });
  };
  EXPECT_EQ(refusal("experts = 8\nk = 9"),
            "s.toml:3: upcycle.k = 9 is above upcycle.experts = 8 "
            "(upcycle.experts: s.toml:2)");
  penstock::testing::expect_says(refusal("correct_gain = true"),
                                 {"and upcycle.correct_gain are for"});
  penstock::testing::expect_says(refusal("lr_scale = 0"), {"lr_scale = 0 is out of range"});
}

TEST(StartModel, ADamagedCheckpointIsRefused) {
  const testing::TemporaryDirectory folder;
  const std::string model = folder.path("dense");
  penstock::testing::write_parent(model, penstock::testing::tiny_config());
  const CheckpointManifest manifest{
      .step = 4,
      .validation_loss = {},
      .files = {{"config.json", {std::filesystem::file_size(model + "/config.json"), 1}}}};
  testing::write_text(model + "/manifest.json", manifest_text(manifest));
  penstock::testing::expect_error(
      [&] {
        begin_with(model, ConfigNode(), ConfigNode(), folder.path("start"), folder.path("keys"),
                   /*force=*/false, nullptr);
      },
      {"dense/config.json: checksum differs"});
  EXPECT_FALSE(std::filesystem::exists(folder.path("start")));
}

TEST(StartModel, ATextsHashIsThatOfItsContent) {
  const testing::TemporaryDirectory folder;
  for (const auto& [name, text] :
       {std::pair{"a", "some words"}, std::pair{"b", "some words"}, std::pair{"c", "other words"}})
    testing::write_text(folder.path(name), text);
  EXPECT_EQ(text_content_hash(folder.path("a")), text_content_hash(folder.path("b")));
  EXPECT_NE(text_content_hash(folder.path("a")), text_content_hash(folder.path("c")));
  penstock::testing::expect_error([&] { text_content_hash(folder.path("d")); },
                                  {"d: cannot be opened"});
}

}  // namespace
}  // namespace penstock::study
