// Times stock tensor operations and gradient nodes outside the operators, so that what a step
// spends there has names. Apart from Profile, because each of them pays for it.
#pragma once

#include <cstdint>

namespace penstock::ops {

/// While it lives, and a Profile lives, each stock operation ("aten::softmax") and gradient node of
/// this thread is a scope of the Profile, unless an operator runs. A name of an operator of this
/// library stands for what surrounds its kernel.
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
