// Gradient checkpointing: the backward pass computes a piece of the forward pass again, so that the
// piece's intermediate values need not be kept. models and train choose the pieces.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace penstock {

/// Computes outputs from inputs. It is called once forward and once backward with the same inputs,
/// and must compute the same bits: it must draw from copies of generator states.
using Piece = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& inputs)>;

/// Runs piece(inputs) and keeps only the inputs for the backward pass.
///
/// The bits of the outputs and of all gradients are those of a call of the piece itself: both
/// passes run with gradients enabled, in the precision of the first. The gradients of a piece's
/// parameters are passed on together, at the end of its backward pass.
/// @param parameters  the other tensors that get gradients; none may be among the inputs
/// REQUIRES: outputs are defined, of floating point, and none of them is an input.
/// Cost: the piece's forward pass once more.
/// Source: Chen et al., arXiv:1604.06174.
std::vector<at::Tensor> recomputed(const Piece& piece, const std::vector<at::Tensor>& inputs,
                                   const std::vector<at::Tensor>& parameters);

}  // namespace penstock
