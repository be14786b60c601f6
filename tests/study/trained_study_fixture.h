// A study with small, real trainings in a new folder: helpers that its tests share.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "penstock/study/study_runner.h"
#include "tests/base/temp_directory.h"
#include "tests/study/fixture.h"
#include "tests/train/small_run.h"

namespace penstock::study::testing {

class TrainedStudy : public ::testing::Test {
 protected:
  /// Makes a corpus and base.toml, a recipe of eight steps.
  /// @param model  tables that follow the recipe's [model]
  /// @param train  more lines of its [train]
  void write_base(const std::string& model, const std::string& train) const {
    penstock::testing::small_corpus(directory_.path());
    write_text(path("base.toml"),
               "[model]\nvocab = 0\nd_model = 32\nlayers = 2\nheads = 4\nd_ffn = 48\n" + model +
                   "[data]\ncorpus = \"" + path("corpus") +
                   "\"\n[train]\nsteps = 8\nbatch_sequences = 4\nsequence_length = 16\n"
                   "lr = 3e-3\nfinal_eval_tokens = 512\n" +
                   train + "[run]\nthreads = 1\nreport = false\ntensorboard = false\n");
  }
  std::string path(const std::string& name) const { return directory_.path(name); }
  /// Trains and measures the runs of study.toml.
  StudyResults run() const {
    return run_study(read_study(path("study.toml")), {.output = path("out")},
                     training_hooks(nullptr))
        .results;
  }

 private:
  penstock::testing::TempDirectory directory_;
};

}  // namespace penstock::study::testing
