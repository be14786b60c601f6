// A corpus and a recipe that train within seconds.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "penstock/base/random.h"
#include "penstock/train/read_recipe.h"
#include "tests/base/temp_directory.h"
#include "tests/data/prepared_corpus.h"

namespace penstock::testing {

/// A corpus of seeded words that a model learns in a few steps.
inline Corpus small_corpus(const std::filesystem::path& directory) {
  const char* const words[] = {"weir ", "gate ", "flow ", "turbine ", "head race ", "spill.\n"};
  std::ofstream out(directory / "text.txt");
  for (std::uint64_t i = 0; i < 12000; ++i) out << words[random_below(random_bits(1, 2, i), 6)];
  out.close();
  return prepared_corpus({.inputs = {{.path = (directory / "text.txt").string()}},
                          .out = (directory / "corpus").string()});
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
  node.set("model.vocab", 0);
  node.set("model.d_model", 32);
  node.set("model.layers", 2);
  node.set("model.heads", 4);
  node.set("model.d_ffn", 48);
  if (method != "dense") node.set("model.moe.experts", 4);
  node.set("model.router.method", method);
  node.set("train.steps", 40);
  node.set("train.batch_sequences", batch);
  node.set("train.sequence_length", length);
  node.set("train.lr", 3e-3);
  node.set("data.corpus", corpus);
  return node;
}

inline Recipe small_recipe(const std::string& method, std::int64_t batch, std::int64_t length) {
  return read_recipe(small_recipe_node(method, batch, length, "unused"));
}

}  // namespace penstock::testing
