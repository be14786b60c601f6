// Sums of squares of the inputs of a model's matrices over a text. A quantised
// file weighs its errors by them.
// Which tensors are quantised, and how, is not here.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "penstock/convert/conversion_progress.h"
#include "penstock/models/language_model.h"

namespace penstock {

/// Of one matrix [out, in].
struct InputSquares {
  std::vector<double> sums;  ///< of each column, Σ x_j² over the rows x; empty where there was none
  std::int64_t rows = 0;     ///< how many x were summed: of an expert, the tokens that it was given
};

/// Runs the model over windows [n, L] i64 and sums the squares of every matrix's inputs.
/// @return by the matrices' names in files. Every expert has an entry, also without a token.
///         Embeddings have none unless the head is tied to them: then theirs is the head's.
///         Matrices that are multiplied as a mixture have none.
/// Cost: a forward pass with the head, and the first matrices of the experts once more.
/// REQUIRES: weights as parameters, which load_model() gives and open_model() does not.
std::map<std::string, InputSquares> input_squares(LanguageModel& model, const at::Tensor& windows,
                                                  const ConversionProgress& progress = {});

/// What an error in each column weighs: the mean of x_j² over that of all columns, at least 0.01,
/// since another text may use a column that this one leaves at 0. Errors e of a row add Σ_j e_j x_j
/// to a result; where the terms are independent, its mean square is Σ_j e_j² · mean x_j².
/// @return [in]; empty (all weigh alike) for fewer than 32 rows, which give a mean of squares to a
///         quarter at best, or where all sums are 0
std::vector<float> column_weights(const InputSquares& squares);

/// Column weights by the matrix's name; a matrix without an entry has columns that weigh alike.
using ColumnWeights = std::map<std::string, std::vector<float>>;

}  // namespace penstock
