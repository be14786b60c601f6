#include "penstock/finetune/texts.h"

#include "penstock/base/error.h"

namespace penstock {

std::vector<std::size_t> EncodedSet::lengths() const {
  std::vector<std::size_t> out;
  for (const auto& text : texts) out.push_back(text.size());
  return out;
}

EncodedSet TextEncoder::encode(const ClassificationSet& set, std::int64_t most) const {
  PENSTOCK_CHECK(most >= 3, "sequence_length = ", most,
                 " leaves no room for text between two borders; give 3 or more");
  EncodedSet out;
  for (std::size_t i = 0; i < set.size(); ++i) {
    out.texts.push_back(encode(set.texts[i], most, out));
    out.labels.push_back(set.labels[i]);
  }
  return out;
}

}  // namespace penstock
