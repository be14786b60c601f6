// Measurements: a study's work on a finished run beyond training. Each kind is one file in
// measurements/ that registers itself, so there is no list of kinds. study_runner.h decides which
// runs are measured and when.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "penstock/base/config_node.h"
#include "penstock/models/model_config.h"
#include "penstock/study/config/comparison.h"
#include "penstock/study/config/named_tables.h"
#include "penstock/study/run_checkpoint.h"
#include "penstock/study/runs/run_row.h"
#include "penstock/study/table.h"
#include "penstock/train/run_control.h"

namespace penstock::study {

/// A finished run, as measurements see it.
struct FinishedRun {
  std::string variant;
  std::int64_t seed = 0;
  ConfigNode recipe;  ///< resolved
  ModelConfig model;  ///< of that recipe
  /// The run's folder, which may be outside the output folder.
  std::string directory;
  RunCheckpoint checkpoint = RunCheckpoint::final;  ///< the one that the study measures
};

/// One piece of work on a run.
struct Work {
  std::string what;       ///< text for the progress: "measuring the final checkpoint by k"
  nlohmann::json asked;   ///< the request, in the measurement's own format
  bool trains = false;    ///< whether it needs its own training
  std::string directory;  ///< folder of that training, which has its own page; else empty
};

/// The source of the keys that are read. Each overrides the one before.
enum class KeysOf { study, scale, command_line };

/// One kind of measurement. An instance can read and show rows even if it has read no settings.
class Measurement {
 public:
  virtual ~Measurement() = default;

  /// The name under which it is registered.
  const std::string& name() const { return name_; }

  // Reading the study's file.

  /// Reads its keys. Called for the top of the file, then for the scale, then for --set.
  virtual void read_keys(FieldReader& /*keys*/, KeysOf /*part*/) {}
  /// Reads its keys of a variant.
  virtual void read_variant(FieldReader& /*keys*/, const std::string& /*variant*/) {}
  /// The words of report = [...] that request it.
  virtual std::vector<std::string_view> report_words() const { return {}; }
  /// Whether a --set KEY=VALUE belongs to this measurement and not to the recipes.
  virtual bool takes(const std::string& /*override*/) const { return false; }
  /// Called after everything is read, with the words of `report`. Throws Error, beginning with
  /// `path`.
  virtual void settle(std::span<const std::string> /*report*/, const std::string& /*path*/) {}
  /// Whether it shows a paper's number under that name.
  virtual bool shows(const std::string& /*name*/) const { return false; }
  /// The names that shows() accepts, for errors: "numbers of experts (k1, all)"; "": none.
  virtual std::string showable() const { return ""; }
  /// A table of its own settings for report = ["settings"], if it has any.
  virtual std::optional<Table> settings_table() const { return std::nullopt; }
  /// Throws Error if something that it needs is missing. The study calls it before any training.
  virtual void check() const {}

  // Measuring a run.

  /// Removes results from a row that the study no longer asks for. Returns whether there were any.
  virtual bool prune(const FinishedRun& /*run*/, RunRow& /*row*/) const { return false; }
  /// The work that the row still lacks, in order.
  virtual std::vector<Work> missing(const FinishedRun& run, const RunRow& row) const = 0;
  /// Does the work and returns the result for keep(); nothing if interrupted.
  virtual std::optional<nlohmann::json> measure(const FinishedRun& run, const Work& work,
                                                const TrainControl& control) const = 0;
  /// Stores a result in the row and in the run's folder.
  virtual void keep(const FinishedRun& run, const Work& work, const nlohmann::json& result,
                    RunRow& row) const = 0;

  /// Its part of a row's object (RunRow::measured), checked. Throws Error naming `where`.
  virtual nlohmann::json read_row(const nlohmann::json& row, const std::string& where) const = 0;
  /// The same part, as keep() stored it in a run's folder. Throws Error naming a damaged file.
  virtual nlohmann::json read_folder(const std::string& /*run_directory*/) const {
    return nlohmann::json::object();
  }

  // Showing the rows.

  /// Sections for the terminal and the page; empty if no row has such a measurement.
  virtual std::vector<Section> sections(std::span<const RunRow> rows,
                                        const Comparison& comparison) const = 0;
  /// The object that it adds to results.json besides the rows.
  virtual nlohmann::json summary(std::span<const RunRow> /*rows*/,
                                 const Comparison& /*comparison*/) const {
    return nlohmann::json::object();
  }

 private:
  friend std::vector<std::shared_ptr<Measurement>> make_measurements();
  std::string name_;
};

/// Replaces the row's entry `key` by that of `part`, or removes it if `part` has none. Returns
/// whether this changed the row.
bool replace_measured(RunRow& row, const std::string& key, const nlohmann::json& part);

using Measurements = std::vector<std::shared_ptr<Measurement>>;

/// One measurement of each kind, without settings, sorted by name.
Measurements make_measurements();
/// The same measurements, made once, for uses that need no settings.
const Measurements& plain_measurements();

using MeasurementMaker = std::shared_ptr<Measurement> (*)();
void register_measurement(const std::string& name, MeasurementMaker make);

/// Registers a kind: `const RegisterMeasurement<ByK> registered("by_k");`
template <class Kind>
struct RegisterMeasurement {
  explicit RegisterMeasurement(const std::string& name) {
    register_measurement(name,
                         []() -> std::shared_ptr<Measurement> { return std::make_shared<Kind>(); });
  }
};

}  // namespace penstock::study
