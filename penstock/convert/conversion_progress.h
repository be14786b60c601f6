// Reports the progress of a conversion.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "penstock/base/progress.h"
#include "penstock/models/model_source.h"

namespace penstock {

/// A callback with the present stage and the share of it that is done: ("writing", 0.25). May be
/// null. An exception from it abandons the conversion.
using ConversionProgress = std::function<void(std::string_view what, double done)>;

/// Reports to a progress line, which must outlive the result. A terminal shows each stage from its
/// beginning, because a long stage may report only once.
inline ConversionProgress shown_on(ProgressLine& line) {
  return [&line, stage = std::string()](std::string_view what, double done) mutable {
    const bool begins = line.in_place() && what != stage;
    stage = what;
    if (begins || line.due()) line.show(fmt::format("{} {:3.0f}%", what, 100 * done));
  };
}

inline void tell(const ConversionProgress& progress, std::string_view what, double done) {
  if (progress) progress(what, done);
}

/// A tensor source that reports the share of its tensors that were read, each counted once.
class WatchedSource : public ModelSource {
 public:
  /// REQUIRES: `from` must outlive it.
  WatchedSource(const ModelSource& from, std::string what, ConversionProgress progress)
      : ModelSource(from.config(), from.origin()),
        from_(from),
        what_(std::move(what)),
        progress_(std::move(progress)),
        all_(static_cast<double>(from.names().size())) {}
  std::vector<std::string> names() const override { return from_.names(); }
  std::vector<std::int64_t> shape(const std::string& name) const override {
    return from_.shape(name);
  }
  at::Tensor tensor(const std::string& name) const override {
    if (seen_.insert(name).second) tell(progress_, what_, static_cast<double>(seen_.size()) / all_);
    return from_.tensor(name);
  }
  std::optional<ops::StoredRows> stored(const std::string& name) const override {
    return from_.stored(name);
  }
  std::string stored_name(const std::string& name) const override {
    return from_.stored_name(name);
  }
  std::shared_ptr<const Tokenizer> tokenizer() const override { return from_.tokenizer(); }

 private:
  const ModelSource& from_;
  std::string what_;
  ConversionProgress progress_;
  double all_;
  mutable std::set<std::string> seen_;
};

}  // namespace penstock
