// Times stock tensor operations and gradient nodes outside the operators, so that a profile has
// names for a step's time there. It is not part of Profile, because it makes each stock operation
// slower.
#pragma once

#include <cstdint>

namespace penstock::ops {

/// While it and a Profile live, each stock operation ("aten::softmax") and gradient node of this
/// thread is a scope of the Profile, except inside an operator. A scope with the name of an
/// operator of this library is the work around the operator's kernel.
class StockProfile {
 public:
  StockProfile();
  ~StockProfile();
  StockProfile(const StockProfile&) = delete;
  StockProfile& operator=(const StockProfile&) = delete;

 private:
  std::uint64_t callback_;
};

}  // namespace penstock::ops
