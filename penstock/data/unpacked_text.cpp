#include "penstock/data/unpacked_text.h"

namespace penstock {

void UnpackedText::append(std::string_view block) {
  if (file_) return file_->append(bytes_of(block));
  held_ += block;
  if (folder_.empty() || held_.size() <= kLargeText) return;
  file_.emplace(folder_, "unpacked text").append(bytes_of(held_));
  held_ = {};
}

std::string_view UnpackedText::text() {
  if (!file_) return held_;
  const Bytes bytes = file_->map(0, file_->size());
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace penstock
