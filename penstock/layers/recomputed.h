// A piece of a forward pass that is computed again in the backward pass in place of keeping what
// its gradient needs (gradient checkpointing). Which pieces of a model those are is models' and
// train's.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace penstock {

/// Outputs of inputs. It is called once forward and once backward, with the same numbers, and has
/// to compute the same bits each time: what it draws comes of states that it holds as they were.
using Piece = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& inputs)>;

/// piece(inputs), of which nothing but the inputs is kept for the backward pass.
///
/// The bits of the outputs and of all gradients are those of a call of the piece itself: both
/// passes run with gradients enabled, in the precision of the first. The gradients of a piece's
/// parameters are handed on together, when its backward pass is through.
/// @param parameters  what else gradients go to; none may be among the inputs
/// REQUIRES: outputs are defined, of floating point, and none of them is an input.
/// Cost: the piece's forward pass once more.
/// Source: Chen et al., arXiv:1604.06174.
std::vector<at::Tensor> recomputed(const Piece& piece, const std::vector<at::Tensor>& inputs,
                                   const std::vector<at::Tensor>& parameters);

}  // namespace penstock
