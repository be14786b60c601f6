// The figures of a run's checkpoint at several numbers of experts per token. measurements/by_k.cpp
// measures them.
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
  double trained_k = 0;          ///< experts per token in training; 0: unknown, or no k
  std::vector<KFigures> points;  ///< by k; a model without k has one point, with k = 0

  /// The figures at that k, or the figures that hold for every k; null if not measured.
  const KFigures* at(std::int64_t k) const;

  /// Visits all fields but the points.
  template <class V>
  void visit(V& v) {
    v("checkpoint", checkpoint);
    v("step", step);
    v("split", split);
    v("trained_k", trained_k);
  }
};

/// The values of `wanted` that have not been measured on that checkpoint.
std::vector<std::int64_t> missing_k(const std::optional<MeasuredK>& have,
                                    std::span<const std::int64_t> wanted, RunCheckpoint checkpoint);
/// The points of both, by k, if both have the same checkpoint and split; otherwise `more` alone.
MeasuredK merged(const std::optional<MeasuredK>& have, MeasuredK more);

/// {"by_k": [...], "by_k_of": {"checkpoint", "step", "split", "trained_k"}}.
nlohmann::json to_json(const MeasuredK& measured);
/// Reads an object with those two keys; returns nothing if they are missing. Throws Error naming
/// `where` for wrong types.
std::optional<MeasuredK> measured_k_from_json(const nlohmann::json& object,
                                              const std::string& where);

/// The row's measurement by k, or with `folded` its measurement with folded routers.
std::optional<MeasuredK> measured_k(const RunRow& row, bool folded = false);

}  // namespace penstock::study
