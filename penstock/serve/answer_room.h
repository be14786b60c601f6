// A limit for the memory that the large answers of several requests hold together.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

namespace penstock::serve {

/// Thread-safe. REQUIRES: the room outlives what take() gives.
class AnswerRoom {
 public:
  explicit AnswerRoom(std::int64_t most) : most_(most) {}
  /// Takes a part of the room until the last copy of the result is destroyed.  @return null if the
  /// other answers leave too little room. An answer that is alone gets any size.
  std::shared_ptr<const void> take(std::int64_t size);

 private:
  const std::int64_t most_;
  std::mutex mutex_;
  std::int64_t taken_ = 0;
};

}  // namespace penstock::serve
