// A study of fake runs in a new folder, for the tests of the study runner and of studies' keys.
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
  /// Writes the fake study again, with `head` before its lines and `tail` after them. `tail`
  /// belongs to the variant remoe.
  void ask(const std::string& head, const std::string& tail = "") {
    write_fake_study(folder.path());
    write_text(file, head + read_text(file) + tail);
  }
  StudyOutcome run(FakeTrainer& trainer, const StudyOptions& how) {
    return run_study(read_study(file), how, trainer.hooks());
  }
  StudyOutcome run(FakeTrainer& trainer) { return run(trainer, options); }
};

}  // namespace penstock::study::testing
