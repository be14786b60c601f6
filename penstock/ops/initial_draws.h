// Draws the initial values of parameters, by seed and name. The draws of a training pass come from
// generators instead.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "penstock/ops/slice.h"

namespace penstock {

/// The source of a module's initial values: a seed and the module's path in the model. Value i
/// of a parameter is a function of (seed, full name, i) alone. So parameters may be made in any
/// order, on any machine, and in parts.
class InitialDraws {
 public:
  explicit InitialDraws(std::uint64_t seed) : seed_(seed) {}
  /// Takes the seed from libtorch's default CPU generator, as libtorch's modules do.
  static InitialDraws from_default_generator();

  /// The draws of the submodule with the name.
  InitialDraws of(std::string_view module) const;
  /// Returns the slice that this process holds of a parameter, by its full name; null: all of it.
  using Slices = std::function<const Slice*(const std::string& name)>;
  /// The same values for a model that holds only these slices of its parameters.
  InitialDraws within(Slices slices) const;

  /// Fills `tensor`, elements [first, first + numel) of the module's parameter `name`, with
  /// N(mean, std²). Box–Muller in f32 over the counter-based bits of (seed, xxh64(full name), i/2):
  /// an f64 parameter gets the same values. If within() gave a slice, the slice says which
  /// elements. No value is further than 6.8 std from the mean. REQUIRES: first >= 0 (asserted). No
  /// gradient.
  void normal(std::string_view name, const at::Tensor& tensor, double std, double mean = 0,
              std::int64_t first = 0) const;

 private:
  InitialDraws(std::uint64_t seed, std::string path, Slices slices)
      : seed_(seed), path_(std::move(path)), slices_(std::move(slices)) {}

  std::uint64_t seed_;
  std::string path_;  // with a dot at its end; empty for the model itself
  Slices slices_;     // null: the whole model
};

}  // namespace penstock
