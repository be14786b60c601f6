// Gradient checkpointing: the backward pass computes a piece of the forward pass again, so that the
// piece's intermediate values need not be kept. `models` and `train` choose the pieces.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace penstock {

/// Computes outputs from inputs. It is called once in the forward pass and once in the backward
/// pass, with the same inputs. Both calls must give the same bits, so a piece must draw from copies
/// of generator states.
using Piece = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& inputs)>;

/// Runs piece(inputs) and keeps only the inputs for the backward pass.
///
/// Outputs and gradients have the same bits as a plain call of the piece. Both passes run with
/// gradients enabled and in the precision of the forward pass. The gradients of a piece's
/// parameters are passed on together, at the end of its backward pass.
/// @param parameters  the other tensors that get gradients; none may be among the inputs
/// REQUIRES: outputs are defined and of floating point, and no output is an input.
/// Cost: the piece's forward pass once more.
/// Source: Chen et al., arXiv:1604.06174.
std::vector<at::Tensor> recomputed(const Piece& piece, const std::vector<at::Tensor>& inputs,
                                   const std::vector<at::Tensor>& parameters);

}  // namespace penstock
