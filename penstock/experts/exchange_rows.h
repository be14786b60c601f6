// The exchange of rows between ranks as an operation with a gradient. Which rows go where is the
// caller's; see token_exchange.h for those of a plan.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "penstock/dist/group.h"

namespace penstock {

/// Rows that each rank of a group gets, in rank order.
using RowCounts = std::vector<std::int64_t>;

/// Rows for every rank for rows from every rank, as ProcessGroup::all_to_all.
/// @param rows  [Σ sent, ...].  @return [Σ received, ...].
/// Gradient: rows; it goes the same way back. All ranks make their backward passes side by side,
/// and each makes it where one does: what is returned must take part in what is minimised.
/// @param meanwhile  called while the rows are under way, if not null; it makes no operations of
/// this group. What it builds is passed backward while the gradients are under way, since autograd
/// goes through nodes from the last one made to the first.
at::Tensor exchange_rows(const at::Tensor& rows, const RowCounts& sent, const RowCounts& received,
                         const dist::ProcessGroup& group,
                         const std::function<void()>& meanwhile = {});

}  // namespace penstock
