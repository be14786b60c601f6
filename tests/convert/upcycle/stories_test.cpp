// A real checkpoint, stories260K of llama2.c (grouped-query attention, a tied head, adjacent
// rotary pairs), upcycled.
#include <gtest/gtest.h>

#include "penstock/convert/upcycle/upcycle.h"
#include "penstock/doctor/doctor.h"
#include "penstock/models/files/open_model.h"
#include "tests/base/error_of.h"
#include "tests/base/temp_directory.h"
#include "tests/convert/tiny_parent.h"
#include "tests/models/checkpoints.h"

namespace penstock {
namespace {

class Stories : public ::testing::Test {
 protected:
  void SetUp() override {
    dense_ = testing::public_checkpoint("stories260K/stories260K.bin");
    if (dense_.empty()) GTEST_SKIP() << "missing data: no stories260K beside the checkout";
    write_file_atomically(
        real_file_system(), path("text"),
        std::string_view("Once upon a time, there was a little girl named Lily. She loved to play "
                         "outside in the park. One day, she saw a big, red ball. She wanted to "
                         "play with it, but it was too high. Lily's mom said, \"Lily, let's go to "
                         "the park.\" Lily was sad and didn't know what to do. She said, \"I want "
                         "to play with your ball, but I can't find it.\"\n"));
  }
  std::string path(const std::string& name) const { return temp_.path(name); }

  testing::TempDirectory temp_;
  std::string dense_;
};

TEST_F(Stories, AllExpertsWithGatesThatSumToOneComputeTheDenseModel) {
  const auto source = open_model_source(dense_);
  const auto dense = load_model(dense_);
  const at::Tensor expected = testing::logits_of(*dense, 200);
  for (const std::string method :
       {"vanilla", "locmoe", "mlp", "router-upcycling", "router-upcycling-max"}) {
    SCOPED_TRACE(method);
    upcycle(*source, {.method = method, .k = 8, .renormalise = true, .calibration = path("text")},
            real_file_system(), path(method));
    const auto moe = open_model_source(path(method));
    for (const std::string& name : moe->names())
      if (expert_of(name) >= 0) {
        EXPECT_TRUE(moe->tensor(name).equal(source->tensor(parent_name(name)))) << name;
      }
    const auto model = load_model(path(method));
    EXPECT_LT(testing::difference(testing::logits_of(*model, 200), expected), 1e-5);
    EXPECT_EQ(moe->tokenizer()->encode("Once upon a time"),
              source->tokenizer()->encode("Once upon a time"));
  }
}

/// Eight heads share four keys. With a key per head, experts would be tied in pairs; noise breaks
/// the ties.
TEST_F(Stories, HeadsThatShareKeysGiveNoTiedExperts) {
  const auto report = upcycle(*open_model_source(dense_),
                              {.method = "router-upcycling", .calibration = path("text")},
                              real_file_system(), path("moe"));
  for (const std::int64_t tied : report.tied) EXPECT_EQ(tied, 4);
  const auto paired =
      upcycle(*open_model_source(dense_),
              {.method = "router-upcycling", .routers = 4, .calibration = path("text")},
              real_file_system(), path("paired"));
  for (const std::int64_t tied : paired.tied) EXPECT_EQ(tied, 0);
}

TEST_F(Stories, TheDoctorFindsThemHealthy) {
  for (const std::string method : {"vanilla", "switch", "locmoe", "mlp", "router-upcycling",
                                   "router-upcycling-max", "remoe"}) {
    SCOPED_TRACE(method);
    upcycle(*open_model_source(dense_),
            {.method = method,
             .k = method == "switch" ? 1.0 : 2.0,
             .start = UpcycleStart::parent,
             .calibration = path("text")},
            real_file_system(), path(method));
    const Diagnosis diagnosis = examine(path(method), {.dense = dense_, .text = path("text")});
    for (const Check& check : diagnosis.checks) {
      // Heads prefer few experts for most tokens, at any scale of the logits.
      if (method.starts_with("router-upcycling") &&
          (check.name == "idle experts" || check.name == "dead experts" ||
           check.name == "entropy and balance"))
        continue;
      // ReLU gates sum to one only on average, so the loss may exceed the parent's.
      if (check.name == "as configured" && method == "remoe") continue;
      // With one expert the gate is a probability below 1, so the loss is far above the parent's.
      const bool far = check.name == "as configured" && method == "switch";
      EXPECT_EQ(check.state, far ? CheckState::warning : CheckState::ok)
          << check.name << ": " << check.finding;
    }
  }
}

/// With the paper's settings the heads' logits are so large that the z-loss is nearly all of the
/// first loss and gradient, and most experts of some layers are idle.
TEST_F(Stories, TheDoctorSaysWhatThePublishedStartDoes) {
  upcycle(*open_model_source(dense_), {.method = "router-upcycling", .calibration = path("text")},
          real_file_system(), path("published"));
  const Diagnosis diagnosis = examine(path("published"), {.dense = dense_, .text = path("text")});
  const auto finding = [&](const std::string& name) {
    for (const Check& check : diagnosis.checks)
      if (check.name == name && check.state == CheckState::warning) return check.finding;
    return std::string("no warning of ") + name;
  };
  testing::expect_says(finding("first loss"), {"z-loss outweighs"});
  testing::expect_says(finding("first gradient"), {"z-loss outweighs"});
  testing::expect_says(finding("idle experts"), {"most experts idle"});
}

}  // namespace
}  // namespace penstock
