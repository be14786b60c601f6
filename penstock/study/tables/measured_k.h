// What a run's checkpoint gives at several numbers of experts per token. Measuring it is
// measurements/by_k.cpp's matter.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "penstock/eval/k_figures.h"
#include "penstock/study/run_checkpoint.h"
#include "penstock/study/runs/run_row.h"

namespace penstock::study {

struct MeasuredK {
  RunCheckpoint checkpoint = RunCheckpoint::final;
  std::int64_t step = 0;
  std::string split;
  double trained_k = 0;          ///< experts per token it was trained with; 0: not known, or no k
  std::vector<KFigures> points;  ///< by k; where the model has no k, one with k = 0 for all

  /// The figures at that k, or those that hold for all; null where it was not measured.
  const KFigures* at(std::int64_t k) const;

  /// All but the points.
  template <class V>
  void visit(V& v) {
    v("checkpoint", checkpoint);
    v("step", step);
    v("split", split);
    v("trained_k", trained_k);
  }
};

/// Those of `wanted` that are still to be measured on that checkpoint.
std::vector<std::int64_t> missing_k(const std::optional<MeasuredK>& have,
                                    std::span<const std::int64_t> wanted, RunCheckpoint checkpoint);
/// Points of both, of the same checkpoint and split, by k; otherwise `more` alone.
MeasuredK joined(const std::optional<MeasuredK>& have, MeasuredK more);

/// {"by_k": [...], "by_k_of": {"checkpoint", "step", "split", "trained_k"}}.
nlohmann::json to_json(const MeasuredK& measured);
/// From an object that holds those two keys; nothing where it does not. Throws Error naming
/// `where` for wrong types.
std::optional<MeasuredK> measured_k_from_json(const nlohmann::json& object,
                                              const std::string& where);

/// What the row has of it, or of the same with folded routers.
std::optional<MeasuredK> measured_k(const RunRow& row, bool folded = false);

}  // namespace penstock::study
