// The tokens on which an export is measured.
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "penstock/convert/export/export_model.h"
#include "penstock/data/tokenizers/words_tokenizer.h"
#include "tests/base/error_of.h"
#include "tests/base/temp_directory.h"
#include "tests/convert/small_models.h"

namespace penstock {
namespace {

TEST(TokensToCheck, AreDrawnIfTheTokenizerCannotEncodeTheStory) {
  const testing::TempDirectory temp;
  const std::string model =
      testing::write_random_model(testing::small_dense(), temp.path("model"), false);
  const std::string_view text = "some words\n";
  train_words({&text, 1})->save(model);
  const Certificate done = export_model({.model = model, .out = temp.path("hf")});
  EXPECT_EQ(done.verdict, ExportVerdict::exact);
  EXPECT_GT(done.agreement.tokens, 0);
  testing::expect_says(done.tokens,
                       {"drawn evenly, as the model has no tokenizer with tokens for"});
}

}  // namespace
}  // namespace penstock
