// A study of fake runs in a fresh folder, for the tests of the runner.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "penstock/study/study_runner.h"
#include "tests/study/fixture.h"

namespace penstock::study::testing {

struct StudyRunner : ::testing::Test {
  TemporaryDirectory folder;
  std::string file = write_fake_study(folder.path());
  StudyOptions options{.output = folder.path("out"), .command = "penstock study study.toml"};
  StudyOutcome run(FakeTrainer& trainer, const StudyOptions& how) {
    return run_study(read_study(file), how, trainer.hooks());
  }
  StudyOutcome run(FakeTrainer& trainer) { return run(trainer, options); }
};

}  // namespace penstock::study::testing
