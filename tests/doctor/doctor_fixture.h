// The models of the doctor's tests: a small dense model, and a model upcycled from it.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "penstock/convert/upcycle/upcycle.h"
#include "penstock/doctor/doctor.h"
#include "penstock/models/files/open_model.h"
#include "tests/base/temp_directory.h"
#include "tests/convert/tiny_parent.h"

namespace penstock::testing {

/// A parent, a text, and an upcycled model that the tests damage.
class Doctor : public ::testing::Test {
 protected:
  void SetUp() override {
    write_parent(path("dense"), tiny_config(4));
    write_text(path("text"));
  }
  std::string path(const std::string& name) const { return temp_.path(name); }
  UpcycleReport make(UpcycleOptions how) const {
    real_file_system().remove_all(path("moe"));
    how.calibration = path("text");
    return upcycle(*open_model_source(path("dense")), how, real_file_system(), path("moe"));
  }
  Diagnosis look() const {
    return examine(path("moe"), {.dense = path("dense"), .text = path("text")});
  }
  /// Applies `change` to the model's tensors and writes the model again.
  void damage(const std::function<void(TensorMap&)>& change) const {
    TensorMap tensors = load_tensors(path("moe"));
    change(tensors);
    save_tensors(real_file_system(), path("moe/model.safetensors"), tensors);
  }
  /// Gives all tokens the same embedding. The routers then send them to the same experts.
  void give_all_tokens_one_embedding() const {
    damage([](TensorMap& tensors) {
      at::Tensor table = tensors["model.embed_tokens.weight"];
      table.copy_(table[65].clone().expand_as(table));
    });
  }
  static const Check* find(const Diagnosis& diagnosis, const std::string& name) {
    for (const Check& check : diagnosis.checks)
      if (check.name == name) return &check;
    return nullptr;
  }
  void expect_fault(const std::string& name, const std::string& word) const {
    const Diagnosis diagnosis = look();
    EXPECT_EQ(diagnosis.worst(), CheckState::fault);
    const Check* const check = find(diagnosis, name);
    ASSERT_TRUE(check) << name;
    EXPECT_EQ(check->state, CheckState::fault);
    EXPECT_NE(check->finding.find(word), std::string::npos) << check->finding;
    EXPECT_FALSE(check->remedy.empty());
  }
  void expect_healthy() const {
    const Diagnosis diagnosis = look();
    for (const Check& check : diagnosis.checks)
      EXPECT_EQ(check.state, CheckState::ok) << check.name << ": " << check.finding;
    EXPECT_EQ(diagnosis.layers.size(), 2U);
  }

  TempDirectory temp_;
};

}  // namespace penstock::testing
