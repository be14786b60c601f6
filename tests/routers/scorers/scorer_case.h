// The numbers that scorers.py writes for one scorer: its parameters, logits and gradients.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/routers/parts.h"

namespace penstock::testing {

using Tensors = std::map<std::string, std::vector<double>>;  ///< row by row

struct ScorerCase {
  std::string scorer;
  Options options;
  Tensors parameters;
  std::vector<double> logits;       ///< [4, 5]
  std::vector<double> hidden_grad;  ///< [4, 3]
  Tensors grads;                    ///< of the trained parameters
};

}  // namespace penstock::testing
