// Sums, maxima and broadcasts, made of a transport's exchanges and messages. Gloo has such
// operations too, but a rank that waits in one of them cannot be told that another rank is lost.
#pragma once

#include "penstock/dist/reduction.h"
#include "penstock/dist/transport.h"

namespace penstock::dist {

/// Where a rank is among how many.
struct RankPlace {
  int rank = 0, size = 1;
};

/// In place, in rank order, so that all ranks get the same bits. Small tensors: all ranks get all
/// of them and reduce. Others: each rank reduces a part, and all get the parts, which is 2 (N - 1)
/// / N times the tensor sent by each of N ranks.
/// @param values  contiguous, f32|f64|i32|i64
void all_reduce(Transport& transport, const at::Tensor& values, Reduction reduction,
                RankPlace place);

/// In place, what the root has, along a tree: log2 N messages one after the other.
/// @param bytes  contiguous
void broadcast(Transport& transport, const at::Tensor& bytes, int root, RankPlace place);

}  // namespace penstock::dist
