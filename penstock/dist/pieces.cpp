#include "penstock/dist/pieces.h"

#include <torch/types.h>

#include <algorithm>
#include <cstring>

#include "penstock/base/error.h"

namespace penstock::dist {

std::int64_t total_bytes(const Pieces& pieces) {
  std::size_t out = 0;
  for (const at::Tensor& piece : pieces) out += piece.nbytes();
  return static_cast<std::int64_t>(out);
}

Pieces as_bytes(const Pieces& pieces) {
  Pieces out;
  for (const at::Tensor& piece : pieces) {
    PENSTOCK_ASSERT(piece.is_contiguous() && piece.device().is_cpu());
    const auto bytes = static_cast<std::int64_t>(piece.nbytes());
    out.push_back(at::from_blob(piece.data_ptr(), {bytes}, at::kByte));
  }
  return out;
}

std::byte* join(const Pieces& pieces, std::byte* to) {
  for (const at::Tensor& piece : pieces) {
    if (piece.nbytes() > 0) std::memcpy(to, piece.data_ptr(), piece.nbytes());
    to += piece.nbytes();
  }
  return to;
}

void divide(const std::byte* from, const Pieces& pieces) {
  for (const at::Tensor& piece : pieces) {
    if (piece.nbytes() > 0) std::memcpy(piece.data_ptr(), from, piece.nbytes());
    from += piece.nbytes();
  }
}

void copy(const Pieces& from, const Pieces& to) {
  PENSTOCK_ASSERT(total_bytes(from) == total_bytes(to));
  std::size_t next = 0, done = 0;  // of `from`: the piece, and bytes of it
  for (const at::Tensor& piece : to) {
    auto* place = static_cast<std::byte*>(piece.data_ptr());
    for (std::size_t left = piece.nbytes(); left > 0;) {
      const at::Tensor& source = from.at(next);
      const std::size_t bytes = std::min(left, source.nbytes() - done);
      const auto* begin = static_cast<const std::byte*>(source.data_ptr()) + done;
      if (bytes > 0 && begin != place) std::memcpy(place, begin, bytes);
      place += bytes;
      left -= bytes;
      done += bytes;
      if (done < source.nbytes()) continue;
      ++next;
      done = 0;
    }
  }
}

}  // namespace penstock::dist
