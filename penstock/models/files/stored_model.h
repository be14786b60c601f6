// A model whose matrices stay in the mapped file, in their stored type. It is for code that reads
// weights only through products: generation and evaluation. Code that trains, analyses or writes
// weights uses load_model() (model_directory.h).
#pragma once

#include <memory>

#include "penstock/models/language_model.h"
#include "penstock/models/model_source.h"

namespace penstock {

/// The source's model in evaluation mode; the model keeps the source open. Matrices in F32, F16,
/// BF16 and GGUF's supported types (ops::RowType) are read from the mapped file. So the model takes
/// the memory of its file, which processes share. Norms, biases and routers are copied as f32. The
/// model runs only passes without gradients; the parameters of matrices that stay in the file hold
/// NaN. With few tokens, the outputs have the same bits as load_model()'s. With many tokens, the
/// order of sums differs.
/// Throws Error that names the file, and the tensor, that is wrong, or that is copied and not
/// finite.
std::shared_ptr<LanguageModel> open_model(std::shared_ptr<const ModelSource> source);
/// The same for a source that the caller keeps open as long as the model is used.
std::shared_ptr<LanguageModel> open_model(const ModelSource& source);
/// The same with another config whose tensors have the same names and shapes.
/// @param activations  the type in which products of few tokens read the activations
std::shared_ptr<LanguageModel> open_model(std::shared_ptr<const ModelSource> source,
                                          const ModelConfig& config,
                                          ops::Activations activations = ops::Activations::f32);

/// Reads all tensors of a source.
/// Throws Error that names the first tensor that holds NaN or infinity. open_model() checks only
/// the tensors that it copies.
void check_finite(const ModelSource& source);

}  // namespace penstock
