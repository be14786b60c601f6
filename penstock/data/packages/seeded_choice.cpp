#include "penstock/data/packages/seeded_choice.h"

#include <iterator>

#include "penstock/base/checksum.h"
#include "penstock/base/file_system.h"
#include "penstock/base/random.h"

namespace penstock {

void SeededChoice::offer(const std::string& name, Document document) {
  Key key{mix64(xxh64(bytes_of(name)) ^ mix64(seed_)), name};
  if (!(key < end_)) return;
  const std::uint64_t size = document.text.size();
  if (!chosen_.emplace(key, std::move(document)).second) return;
  bytes_ += size;
  while (bytes_ > limit_) {
    const auto last = std::prev(chosen_.end());
    bytes_ -= last->second.text.size();
    end_ = last->first;
    chosen_.erase(last);
  }
}

}  // namespace penstock
