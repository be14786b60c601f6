#include "penstock/data/prepare/text_spool.h"

#include <algorithm>

#include "penstock/base/mapped_file.h"

namespace penstock {

std::string_view TextSpool::keep(std::string_view text) {
  const std::uint64_t at = file_.size(), end = at + text.size();
  if (extents_.empty() || end > last_begin_ + extents_.back().size()) {
    last_begin_ = at / UnnamedFile::page_bytes() * UnnamedFile::page_bytes();
    extents_.push_back(file_.map(last_begin_, std::max(extent_bytes_, end - last_begin_)));
  }
  file_.append(bytes_of(text));
  const std::byte* kept = extents_.back().data() + (at - last_begin_);
  return {reinterpret_cast<const char*>(kept), text.size()};
}

void TextSpool::release() const {
  for (const Bytes extent : extents_) release_pages(extent);
}

}  // namespace penstock
