// A trainer's state as tests keep, restore and compare it.
#pragma once

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cstdint>

#include "penstock/models/formats/torch_safetensors.h"
#include "penstock/train/trainer.h"

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

/// Expects the same names and the same bits.
inline void expect_equal(const TensorMap& found, const TensorMap& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, value] : expected) {
    ASSERT_TRUE(found.contains(name)) << name;
    EXPECT_TRUE(torch::equal(found.at(name), value)) << name;
  }
}
inline void expect_equal(const TrainerState& found, const TrainerState& expected) {
  EXPECT_EQ(found.step, expected.step);
  expect_equal(found.model, expected.model);
  expect_equal(found.optimizer, expected.optimizer);
}

}  // namespace penstock::testing
