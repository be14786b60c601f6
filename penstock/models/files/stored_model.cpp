#include "penstock/models/files/stored_model.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "penstock/models/counts/model_tensors.h"
#include "penstock/models/files/model_directory.h"
#include "penstock/models/formats/tensor_names.h"
#include "penstock/models/make_model.h"

namespace penstock {
namespace {

/// A tensor of the file, with its position in a parameter. The order of members sorts the parts by
/// position.
struct Part {
  std::int64_t expert, first_row;
  std::string name;
  auto operator<=>(const Part&) const = default;
};

/// The parts of each parameter or buffer, in the order of their rows.
std::map<std::string, std::vector<Part>> parts_of(const ModelConfig& config) {
  std::map<std::string, std::vector<Part>> out;
  for (const ModelTensor& tensor : model_tensors(config))
    for (std::int64_t e = 0; e < std::max<std::int64_t>(1, tensor.experts); ++e)
      out[tensor.module].push_back({e, tensor.first_row, tensor.name(e)});
  for (auto& [module, parts] : out) std::ranges::sort(parts);
  return out;
}

/// The parameter's rows in the file; empty if products cannot read the stored type of some rows.
ops::StoredMatrix stored_matrix(const ModelSource& source, const std::vector<Part>& parts,
                                ops::Activations activations) {
  ops::StoredMatrix out;
  for (const Part& part : parts) {
    auto rows = source.stored(part.name);
    if (!rows) return {};
    rows->activations = activations;
    out.depth = source.shape(part.name).back();
    out.pieces.push_back(*rows);
  }
  return out;
}

/// A parameter that a module can read from the file.
struct Place {
  std::string parameter;
  ops::StoredMatrix matrix;
  const std::vector<Part>* parts;
};

/// The parameters that each module can read from the file. A module that must read all its matrices
/// this way or none has no entry if it cannot read all.
std::map<std::string, std::vector<Place>> places_of(
    const ModelSource& source, const std::map<std::string, std::vector<Part>>& all,
    const std::function<ops::ReadsStored*(const std::string&)>& reader_of,
    ops::Activations activations) {
  std::map<std::string, std::vector<Place>> out;
  std::set<std::string> incomplete;
  for (const auto& [name, parts] : all) {
    const std::size_t dot = name.rfind('.');
    const std::string module = dot == std::string::npos ? "" : name.substr(0, dot);
    const ops::ReadsStored* const reader = reader_of(module);
    if (!reader) continue;
    ops::StoredMatrix matrix = stored_matrix(source, parts, activations);
    if (matrix.empty() && reader->reads_all_or_none()) incomplete.insert(module);
    if (!matrix.empty()) out[module].push_back({name.substr(dot + 1), std::move(matrix), &parts});
  }
  for (const std::string& module : incomplete) out.erase(module);
  return out;
}

/// Lets modules read from the file the parameters that they can read there. @return the names of
/// these parameters' tensors
std::set<std::string> read_in_place(LanguageModel& model, const ModelSource& source,
                                    ops::Activations activations) {
  auto modules = model.named_modules();
  const auto reader_of = [&](const std::string& module) {
    return dynamic_cast<ops::ReadsStored*>(module.empty()             ? &model
                                           : modules.contains(module) ? modules[module].get()
                                                                      : nullptr);
  };
  const auto parts = parts_of(model.config());
  std::set<std::string> out;
  for (const auto& [module, places] : places_of(source, parts, reader_of, activations))
    for (const Place& place : places)
      if (reader_of(module)->read_from(place.parameter, place.matrix))
        for (const Part& part : *place.parts) out.insert(part.name);
  return out;
}

/// Whether the router blends experts. Blending needs the experts' weights as numbers.
bool merges(const ModelConfig& config) { return config.traits().merges; }

}  // namespace

std::shared_ptr<LanguageModel> open_model(std::shared_ptr<const ModelSource> source) {
  return open_model(source, source->config());
}

std::shared_ptr<LanguageModel> open_model(const ModelSource& source) {
  return open_model(std::shared_ptr<const ModelSource>(std::shared_ptr<void>(), &source));
}

std::shared_ptr<LanguageModel> open_model(std::shared_ptr<const ModelSource> source,
                                          const ModelConfig& config, ops::Activations activations) {
  if (merges(config)) return load_model(*source, config);
  struct Opened {
    std::shared_ptr<const ModelSource> source;
    std::shared_ptr<LanguageModel> model;
  };
  const auto opened = std::make_shared<Opened>(Opened{source, make_model(config)});
  LanguageModel& model = *opened->model;
  const torch::NoGradGuard no_grad;
  auto tensors = file_tensors(model);  // before parameters give up their memory
  const std::set<std::string> in_place = read_in_place(model, *source, activations);
  for (auto& [name, target] : tensors)
    if (!in_place.contains(name)) target.copy_(finite_tensor(*source, name));
  model.eval();
  return {opened, &model};
}

void check_finite(const ModelSource& source) {
  for (const std::string& name : source.names()) finite_tensor(source, name);
}

}  // namespace penstock
