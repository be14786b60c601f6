// A corpus and a recipe that train within seconds.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "penstock/base/random.h"
#include "penstock/data/prepare/prepare.h"
#include "penstock/train/read_recipe.h"
#include "tests/base/temp_directory.h"

namespace penstock::testing {

/// A corpus of seeded words that a model learns in a few steps.
inline Corpus small_corpus(const std::filesystem::path& directory) {
  const char* const words[] = {"weir ", "gate ", "flow ", "turbine ", "head race ", "spill.\n"};
  std::ofstream out(directory / "text.txt");
  for (std::uint64_t i = 0; i < 12000; ++i) out << words[random_below(random_bits(1, 2, i), 6)];
  out.close();
  PrepareOptions options;
  options.inputs = {{.path = (directory / "text.txt").string()}};
  options.out = (directory / "corpus").string();
  prepare_corpus(options);
  return Corpus::open(options.out);
}

/// The base of fixtures that read that corpus.
template <class Base = ::testing::Test>
class SmallCorpusTest : public Base {
 protected:
  TempDirectory directory_;
  std::optional<Corpus> corpus_ = small_corpus(directory_.path());
};

/// Two layers of width 32, forty steps. `corpus` is only named, not opened.
inline ConfigNode small_recipe_node(const std::string& method, std::int64_t batch,
                                    std::int64_t length, const std::string& corpus) {
  ConfigNode node;
  const auto set = [&](const std::string& key, ConfigNode::Value value) {
    node.set(key, ConfigNode(std::move(value)));
  };
  set("model.vocab", std::int64_t{0});
  set("model.d_model", std::int64_t{32});
  set("model.layers", std::int64_t{2});
  set("model.heads", std::int64_t{4});
  set("model.d_ffn", std::int64_t{48});
  if (method != "dense") set("model.moe.experts", std::int64_t{4});
  set("model.router.method", method);
  set("train.steps", std::int64_t{40});
  set("train.batch_sequences", batch);
  set("train.sequence_length", length);
  set("train.lr", 3e-3);
  set("data.corpus", corpus);
  return node;
}

inline Recipe small_recipe(const std::string& method, std::int64_t batch, std::int64_t length) {
  return read_recipe(small_recipe_node(method, batch, length, "unused"));
}

}  // namespace penstock::testing
