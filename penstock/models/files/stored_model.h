// A model whose matrices stay in the file that was mapped, in the type that they have there: for
// what reads weights only through products, which is generation and evaluation. Whoever trains,
// analyses or writes weights takes load_model() (model_directory.h).
#pragma once

#include <memory>

#include "penstock/models/language_model.h"
#include "penstock/models/model_source.h"
#include "penstock/ops/stored_matrix.h"

namespace penstock {

/// The source's model, which keeps the source open, in evaluation mode. Its matrices in F32, F16,
/// BF16 and GGUF's types that are read at all (ops::RowType) are read where they lie, so that it
/// takes the memory of its file, which processes share; the rest (norms, biases, routers) is copied
/// as f32. Passes
/// without gradients alone; the parameters of those matrices hold NaN.
/// What it says: with few tokens the bits of load_model()'s; with many, sums in another order.
/// Throws Error naming the file, and the tensor, that is wrong; of what is copied, also where it is
/// not finite.
std::shared_ptr<LanguageModel> open_model(std::shared_ptr<const ModelSource> source);
/// The same of a source that somebody else keeps open for as long as the model is used.
std::shared_ptr<LanguageModel> open_model(const ModelSource& source);
/// The same as a model of another config, whose tensors have the same names and shapes.
/// @param activations  as its products of few tokens see them
std::shared_ptr<LanguageModel> open_model(std::shared_ptr<const ModelSource> source,
                                          const ModelConfig& config,
                                          ops::Activations activations = ops::Activations::f32);

/// Reads all tensors of a source whose model says what is not finite, and throws Error naming the
/// first that holds NaN or infinity; open_model() looks only at what it copies.
void check_finite(const ModelSource& source);

}  // namespace penstock
