// All-reduce and broadcast, built on a transport's exchanges and messages. Gloo has these
// operations too, but a rank that waits in a Gloo operation cannot be told that another rank is
// lost.
#pragma once

#include "penstock/dist/reduction.h"
#include "penstock/dist/transport.h"

namespace penstock::dist {

/// A rank's number and the number of ranks.
struct RankPlace {
  int rank = 0, size = 1;
};

/// Reduces in place, in rank order, so that all ranks get the same bits. Small tensors are sent to
/// all ranks, and every rank reduces them. Of a large tensor each rank reduces a part, and all
/// ranks gather the parts; each of N ranks sends 2 (N - 1) / N times the tensor.
/// @param values  contiguous, f32|f64|i32|i64
void all_reduce(Transport& transport, const at::Tensor& values, Reduction reduction,
                RankPlace place);

/// Broadcasts the root's bytes in place along a tree, in log2 N successive messages.
/// @param bytes  contiguous
void broadcast(Transport& transport, const at::Tensor& bytes, int root, RankPlace place);

}  // namespace penstock::dist
