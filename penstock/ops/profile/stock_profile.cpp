#include "penstock/ops/profile/stock_profile.h"

#include <ATen/record_function.h>

#include <memory>
#include <string>
#include <string_view>

#include "penstock/ops/profile/profile.h"
#include "penstock/ops/profile/profile_frames.h"

namespace penstock::ops {
namespace {

/// Marks an operation for which on_start() began a frame.
struct Begun : at::ObserverContext {};

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction&) {
  if (!profiling() || inside_operator()) return nullptr;
  begin_frame();
  return std::make_unique<Begun>();
}

/// Shortens "autograd::engine::evaluate_function: torch::autograd::CppNode<…::LinearFunction>" to
/// "engine: LinearFunction".
std::string short_name(std::string name) {
  std::string engine;
  if (const auto at = name.find("evaluate_function: "); at != std::string::npos) {
    engine = "engine: ";
    name = name.substr(at + std::string_view("evaluate_function: ").size());
  }
  if (name.ends_with('>')) name.pop_back();
  if (name.find("CppNode<") != std::string::npos || name.starts_with("torch::autograd::"))
    name = name.substr(name.rfind(':') + 1);
  return engine + name;
}

void on_end(const at::RecordFunction& function, at::ObserverContext* begun) {
  if (begun) add_scope(short_name(function.name()), end_frame());
}

}  // namespace

StockProfile::StockProfile()
    : callback_(at::addThreadLocalCallback(
          at::RecordFunctionCallback(on_start, on_end)
              .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}))) {}

StockProfile::~StockProfile() { at::removeCallback(callback_); }

}  // namespace penstock::ops
