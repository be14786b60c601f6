// Joins and splits bytes that are stored in several tensors. This file sends nothing.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace penstock::dist {

/// Contiguous tensors on the CPU, in order: the data that one rank sends to another.
using Pieces = std::vector<at::Tensor>;

std::int64_t total_bytes(const Pieces& pieces);

/// The tensors' memory as tensors of bytes, for copies that ignore the type. REQUIRES: the pieces
/// outlive the result.
Pieces as_bytes(const Pieces& pieces);

/// Writes the pieces to `to`, one after the other.  @return the end of the written bytes
std::byte* join(const Pieces& pieces, std::byte* to);

/// Fills the pieces from the bytes at `from`, one after the other.
void divide(const std::byte* from, const Pieces& pieces);

/// Copies the same bytes into pieces of other sizes. Pieces that share memory are not copied.
/// REQUIRES: both have the same total length.
void copy(const Pieces& from, const Pieces& to);

}  // namespace penstock::dist
