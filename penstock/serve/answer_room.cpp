#include "penstock/serve/answer_room.h"

namespace penstock::serve {

std::shared_ptr<const void> AnswerRoom::take(std::int64_t size) {
  {
    const std::scoped_lock lock(mutex_);
    if (taken_ > 0 && taken_ + size > most_) return nullptr;
    taken_ += size;
  }
  return {static_cast<const void*>(this), [this, size](const void*) {
            const std::scoped_lock lock(mutex_);
            taken_ -= size;
          }};
}

}  // namespace penstock::serve
