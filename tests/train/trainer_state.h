// A trainer's state as tests keep, restore and compare it.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>

#include "penstock/train/trainer.h"
#include "tests/models/expect_equal.h"

namespace penstock::testing {

inline TensorMap copies(const TensorMap& tensors) {
  TensorMap out;
  for (const auto& [name, value] : tensors) out[name] = value.clone();
  return out;
}

/// The tensors of a checkpoint, as copies.
struct TrainerState {
  std::int64_t step = 0;
  TensorMap model, optimizer;
};
inline TrainerState state_of(Trainer& trainer) {
  return {trainer.step(), copies(trainer.model_tensors()), copies(trainer.optimizer_tensors())};
}
inline void restore(Trainer& trainer, const TrainerState& state) {
  trainer.restore(state.step, state.model, state.optimizer, "test");
}

/// Expects the same step and the same bits.
inline void expect_equal(const TrainerState& found, const TrainerState& expected) {
  EXPECT_EQ(found.step, expected.step);
  expect_equal(found.model, expected.model);
  expect_equal(found.optimizer, expected.optimizer);
}

}  // namespace penstock::testing
