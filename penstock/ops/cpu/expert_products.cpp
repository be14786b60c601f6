#include "penstock/ops/cpu/expert_products.h"

#ifdef PENSTOCK_HAVE_XSMM

namespace penstock::ops::xsmm {
namespace {

void compile_forward(TileProducts& out, std::int64_t panel, std::int64_t w, std::int64_t d,
                     std::int64_t f) {
  out.up = compile(
      {.rows = panel, .columns = w, .depth = d, .a_stride = d, .b_stride = w, .c_stride = w});
  for (const bool add : {false, true})
    out.down[add] = compile({.rows = d,
                             .columns = w,
                             .depth = panel,
                             .a_stride = f,
                             .b_stride = w,
                             .c_stride = w,
                             .accumulate = add});
}

void compile_backward(TileProducts& out, std::int64_t panel, std::int64_t w, std::int64_t d,
                      std::int64_t f) {
  out.back = compile({.rows = panel,
                      .columns = w,
                      .depth = d,
                      .a_stride = f,
                      .b_stride = w,
                      .c_stride = w,
                      .transpose_a = true});
  for (const bool add : {false, true}) {
    out.dx[add] = compile({.rows = d,
                           .columns = w,
                           .depth = panel,
                           .a_stride = d,
                           .b_stride = w,
                           .c_stride = w,
                           .transpose_a = true,
                           .accumulate = add});
    out.dw[add] = compile({.rows = panel,
                           .columns = d,
                           .depth = w,
                           .a_stride = w,
                           .b_stride = d,
                           .c_stride = d,
                           .accumulate = add});
  }
}

}  // namespace

ExpertProducts::ExpertProducts(const Operands& operands, bool forward, bool backward) {
  std::array<bool, kBlock / kBlockStep + 1> occurs{};
  for (const Block& block : operands.blocks) occurs[block.width() / kBlockStep] = true;
  const std::int64_t d = operands.width, f = operands.inner, tail = f % kPanel;
  for (std::size_t i = 0; i < occurs.size(); ++i) {
    if (!occurs[i]) continue;
    const auto w = static_cast<std::int64_t>(i) * kBlockStep;
    for (const std::int64_t panel : {f >= kPanel ? kPanel : 0, tail}) {
      if (panel == 0) continue;
      TileProducts& out = products_[panel == kPanel ? 0 : 1][i];
      if (forward) compile_forward(out, panel, w, d, f);
      if (backward) compile_backward(out, panel, w, d, f);
    }
  }
}

}  // namespace penstock::ops::xsmm

#endif
