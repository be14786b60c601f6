// Sums of squares of the inputs of a model's matrices over a text. A quantised file weighs its
// errors by them. gguf_types.h chooses the tensors' types.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "penstock/convert/conversion_progress.h"
#include "penstock/models/language_model.h"

namespace penstock {

/// The sums for one matrix [out, in].
struct InputSquares {
  std::vector<double> sums;  ///< per column, Σ x_j² over the rows x; empty without rows
  std::int64_t rows = 0;     ///< number of rows x; for an expert, its tokens
};

/// Runs the model over windows [n, L] i64 and sums the squares of every matrix's inputs.
/// @return by the matrices' names in files. Every expert has an entry, even without tokens.
///   Embeddings have no entry unless the head is tied to them; then they have the head's. Matrices
///   that are multiplied as a mixture have no entry.
/// Cost: a forward pass with the head, and the first matrices of the experts once more.
/// REQUIRES: the weights are parameters, as from load_model() but not from open_model().
std::map<std::string, InputSquares> input_squares(LanguageModel& model, const at::Tensor& windows,
                                                  const ConversionProgress& progress = {});

/// The weight of an error in each column: the mean of x_j² ÷ the mean over all columns, at least
/// 0.01, because another text may use a column that is 0 in this text. Errors e of a row add Σ_j
/// e_j x_j to an output; if the terms are independent, its mean square is Σ_j e_j² · mean x_j².
/// @return [in]; empty (equal weights) if all sums are 0, or for fewer than 32 rows, whose mean of
/// squares has a relative error of at least a quarter
std::vector<float> column_weights(const InputSquares& squares);

/// Column weights by the matrix's name. The columns of a matrix without an entry have equal
/// weights.
using ColumnWeights = std::map<std::string, std::vector<float>>;

}  // namespace penstock
