// The C++ counterparts of the scripts in this folder, which compute a model's loss and gradients in
// plain PyTorch: the rule that fills parameters, and the two sums that represent a gradient.
#pragma once

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "penstock/models/formats/tensor_names.h"
#include "penstock/models/language_model.h"
#include "penstock/models/make_model.h"

namespace penstock::testing {

inline double name_code(const std::string& name) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < name.size(); ++i)
    sum += static_cast<std::int64_t>(name[i]) * static_cast<std::int64_t>(i + 1);
  return static_cast<double>(sum % 1000);
}

inline at::Tensor element_indices(const at::Tensor& like) {
  return torch::arange(like.numel(), torch::kDouble);
}

/// Makes the model f64 and fills each tensor by the rule. The rule uses the tensor's name in files.
inline void fill_by_rule(LanguageModel& model) {
  model.to(torch::kDouble);
  const torch::NoGradGuard no_grad;
  for (auto& [name, tensor] : file_tensors(model)) {
    const at::Tensor k = element_indices(tensor);
    at::Tensor value = 0.35 * torch::sin(0.37 * name_code(name) + 1.3 * k + 0.003 * k * k);
    if (name.ends_with("norm.weight")) value = 1 + 0.2 * value;
    at::Tensor(tensor).copy_(value.view(tensor.sizes()));
  }
}

/// The gradients, by the names of their parameters in files.
inline std::map<std::string, at::Tensor> file_gradients(LanguageModel& model) {
  const auto copy = make_model(model.config(), 1);
  copy->to(torch::kDouble);
  const torch::NoGradGuard no_grad;
  const auto from = model.named_parameters();
  for (auto& item : copy->named_parameters()) {
    const at::Tensor& grad = from[item.key()].grad();
    item.value().copy_(grad.defined() ? grad : torch::zeros_like(item.value()));
  }
  return file_tensors(*copy);
}

/// The numbers of case `wanted` in tests/models/`file`. The key is the word before the numbers.
inline std::map<std::string, std::vector<double>> script_numbers(const std::string& file,
                                                                 const std::string& wanted) {
  std::map<std::string, std::vector<double>> out;
  std::ifstream in(std::string(PENSTOCK_SOURCE_DIR) + "/tests/models/" + file);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string name, what;
    words >> name >> what;
    if (name != wanted) continue;
    for (double value; words >> value;) out[what].push_back(value);
  }
  return out;
}

/// Compares the model's gradients with the script's.
inline void expect_gradients(LanguageModel& model,
                             const std::map<std::string, std::vector<double>>& expected) {
  for (const auto& [name, gradient] : file_gradients(model)) {
    const at::Tensor flat = gradient.reshape({-1});
    const at::Tensor probe = torch::cos(0.7 * element_indices(gradient) + 0.1 * name_code(name));
    ASSERT_TRUE(expected.contains(name)) << name;
    const double scale = std::max(1.0, expected.at(name).at(1));
    EXPECT_NEAR((flat * probe).sum().item<double>(), expected.at(name).at(0), 1e-10 * scale)
        << name;
    EXPECT_NEAR(flat.abs().sum().item<double>(), expected.at(name).at(1), 1e-10 * scale) << name;
  }
}

}  // namespace penstock::testing
