// The text of a small recipe with experts, and the results of reading the text.
#pragma once

#include <string>
#include <vector>

#include "penstock/io/toml.h"
#include "penstock/train/read_recipe.h"
#include "tests/base/error_of.h"

namespace penstock::testing {

/// Line 9 sets k, line 11 the learning rate.
inline const std::string kRecipeText = R"([model]
d_model = 32
layers = 2
heads = 4
[model.moe]
experts = 4
[model.router]
method = "topk"
k = 1
[train]
lr = 1e-3
batch_sequences = 8
)";

/// The recipe's text with one piece replaced.
inline std::string replaced(const std::string& from, const std::string& to) {
  std::string text = kRecipeText;
  return text.replace(text.find(from), from.size(), to);
}

/// The recipe of a file `r.toml` with the content `text`, with --set of `overrides`.
inline Recipe recipe_from(const std::vector<std::string>& overrides,
                          const std::string& text = kRecipeText) {
  ConfigNode node = parse_toml(text, "r.toml");
  apply_overrides(node, overrides, "--set");
  return read_recipe(node);
}

/// The message of the Error that reading the text throws; "accepted" without an Error.
inline std::string refusal_of(const std::vector<std::string>& overrides,
                              const std::string& text = kRecipeText) {
  return error_or("accepted", [&] { recipe_from(overrides, text); });
}

}  // namespace penstock::testing
