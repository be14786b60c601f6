// Bytes that lie in several tensors, put together and taken apart. Nothing is sent here.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace penstock::dist {

/// Contiguous tensors on the CPU, one after the other: what one rank has for another.
using Pieces = std::vector<at::Tensor>;

std::int64_t total_bytes(const Pieces& pieces);

/// The tensors' memory as bytes: what is only moved has no type. REQUIRES: they outlive the result.
Pieces as_bytes(const Pieces& pieces);

/// Puts the pieces there, one after the other.  @return behind them
std::byte* join(const Pieces& pieces, std::byte* to);

/// The other way round.
void divide(const std::byte* from, const Pieces& pieces);

/// The same bytes, cut in other places. Pieces that are the same memory stay as they are.
/// REQUIRES: both are as long.
void copy(const Pieces& from, const Pieces& to);

}  // namespace penstock::dist
