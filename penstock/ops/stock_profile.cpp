#include "penstock/ops/stock_profile.h"

#include <ATen/record_function.h>

#include <memory>

#include "penstock/ops/profile.h"
#include "penstock/ops/profile_frames.h"

namespace penstock::ops {
namespace {

/// Says that a frame was begun.
struct Begun : at::ObserverContext {};

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction&) {
  if (!profiling() || inside_operator()) return nullptr;
  begin_frame();
  return std::make_unique<Begun>();
}

void on_end(const at::RecordFunction& function, at::ObserverContext* begun) {
  if (begun) add_scope(function.name(), end_frame());
}

}  // namespace

StockProfile::StockProfile()
    : callback_(at::addThreadLocalCallback(
          at::RecordFunctionCallback(on_start, on_end)
              .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}))) {}

StockProfile::~StockProfile() { at::removeCallback(callback_); }

}  // namespace penstock::ops
