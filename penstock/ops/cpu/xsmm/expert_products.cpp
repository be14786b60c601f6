#include "penstock/ops/cpu/xsmm/expert_products.h"

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
                           .b_stride = kBackwardRows,
                           .c_stride = w,
                           .transpose_a = true,
                           .accumulate = add});
  }
}

}  // namespace

void ExpertProducts::compile_weights(std::int64_t panel, std::int64_t rows, std::int64_t width) {
  auto& out = weights_[panel == kPanel ? 0 : 1][rows / kBlockStep];
  for (const bool add : {false, true})
    if (!out[add])
      out[add] = compile({.rows = panel,
                          .columns = width,
                          .depth = rows,
                          .a_stride = kBackwardRows,
                          .b_stride = width,
                          .c_stride = width,
                          .accumulate = add});
}

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
  if (!backward) return;
  for (std::int64_t e = 0; e < operands.experts; ++e)
    for (std::int64_t b = operands.first_block[e]; b < operands.first_block[e + 1];
         b += kBackwardBlocks) {
      const std::int64_t last = std::min(b + kBackwardBlocks, operands.first_block[e + 1]) - 1;
      const std::int64_t rows = (last - b) * kBlock + operands.blocks[last].width();
      if (f >= kPanel) compile_weights(kPanel, rows, d);
      if (tail) compile_weights(tail, rows, d);
    }
}

}  // namespace penstock::ops::xsmm
