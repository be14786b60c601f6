#include "penstock/ops/rows_alone.h"

#include "penstock/ops/cpu/few_rows/dot_rows.h"

namespace penstock::ops {
namespace {

thread_local bool alone = false;

}  // namespace

RowsAlone::RowsAlone() : before_(alone) { alone = true; }
RowsAlone::~RowsAlone() { alone = before_; }

bool rows_alone() { return alone; }

bool takes_few_rows(std::int64_t rows) { return alone || rows <= cpu::kFewRows; }

}  // namespace penstock::ops
