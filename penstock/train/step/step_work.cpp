#include "penstock/train/step/step_work.h"

#include "penstock/base/error.h"

namespace penstock {

StreamForm StepWork::stream_form(std::size_t) const {
  PENSTOCK_ASSERT(false, "this work's model is whole");
  return {};
}

}  // namespace penstock
