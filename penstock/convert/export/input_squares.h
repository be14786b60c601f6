// What a model's matrices are multiplied with over a text: by which a quantised file weighs errors.
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
/// @return by the names that matrices have in files; each expert's by itself, also without a token.
///         Not of matrices that are looked up in, or multiplied as a mixture of several. Of a tied
///         head they are the embeddings'.
/// Cost: a forward pass with the head, and the first matrices of the experts once more.
/// REQUIRES: weights as parameters, which load_model() gives and open_model() does not.
std::map<std::string, InputSquares> input_squares(LanguageModel& model, const at::Tensor& windows,
                                                  const ConversionProgress& progress = {});

/// What errors in the columns weigh: the mean of x_j², where that of all columns is 1, and 0.01 at
/// the least. An error e of a row adds Σ_j e_j x_j to a result, and where these differ from
/// each other at random the mean of its square is Σ_j e_j² · mean x_j². What a text leaves at 0
/// another may need.
/// @return [in]; empty where all weigh alike: of fewer than 32 rows, by which a mean of squares is
///         known to a quarter at best, and where all are 0
std::vector<float> column_weights(const InputSquares& squares);

/// Those of matrices by their names; of others all columns weigh alike.
using ColumnWeights = std::map<std::string, std::vector<float>>;

}  // namespace penstock
