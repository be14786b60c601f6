// The exchange of rows between ranks, as an operation with a gradient. The caller chooses the rows;
// token_exchange.h chooses those of a plan.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "penstock/dist/group.h"

namespace penstock {

/// The number of rows for each rank of a group, in rank order.
using RowCounts = std::vector<std::int64_t>;

/// Sends rows to every rank and returns the rows from every rank, as ProcessGroup::all_to_all.
/// @param rows  [Σ sent, ...].  @return [Σ received, ...].
/// Gradient: rows. It travels the same way back. If one rank runs this backward pass, all ranks
/// must run it together, so the loss must depend on the returned rows.
/// @param meanwhile  if not null, it is called while the rows travel. It must use no collective of
/// this group. Autograd runs nodes from the last made to the first. So the backward pass of what
/// `meanwhile` computes runs while the gradients travel.
at::Tensor exchange_rows(const at::Tensor& rows, const RowCounts& sent, const RowCounts& received,
                         const dist::ProcessGroup& group,
                         const std::function<void()>& meanwhile = {});

}  // namespace penstock
