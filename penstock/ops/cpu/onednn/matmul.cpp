// oneDNN matmul. Version 2 builds a primitive from an operation descriptor, version 3 directly.
// This file holds both and the cache of primitives.
#include "penstock/ops/cpu/onednn/matmul.h"

#include <omp.h>

#include <array>
#include <dnnl.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "penstock/base/error.h"

namespace penstock::ops::onednn {
namespace {

const dnnl::engine& cpu() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

dnnl::memory::desc descriptor(const Matrix& matrix) {
  return {{matrix.rows, matrix.columns},
          dnnl::memory::data_type::f32,
          dnnl::memory::dims{matrix.row_stride, matrix.column_stride}};
}

struct Product {
  dnnl::matmul primitive;
  dnnl::memory::desc a, b, bias, c, scratchpad;
};

Product build(const Matrix& a, const Matrix& b, bool with_bias, const Matrix& c, bool accumulate) {
  Product product{{}, descriptor(a), descriptor(b), {}, descriptor(c), {}};
  if (with_bias)
    product.bias = {{1, c.columns}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::ab};
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (accumulate) {
    dnnl::post_ops sum;
    sum.append_sum();
    attributes.set_post_ops(sum);
  }
#if DNNL_VERSION_MAJOR >= 3
  const dnnl::matmul::primitive_desc chosen =
      with_bias ? dnnl::matmul::primitive_desc(cpu(), product.a, product.b, product.bias, product.c,
                                               attributes)
                : dnnl::matmul::primitive_desc(cpu(), product.a, product.b, product.c, attributes);
#else
  const dnnl::matmul::desc operation =
      with_bias ? dnnl::matmul::desc(product.a, product.b, product.bias, product.c)
                : dnnl::matmul::desc(product.a, product.b, product.c);
  const dnnl::matmul::primitive_desc chosen(operation, attributes, cpu());
#endif
  product.primitive = dnnl::matmul(chosen);
  product.scratchpad = chosen.scratchpad_desc();
  return product;
}

/// All that a primitive depends on, the number of threads included.
using Key = std::array<std::int64_t, 12>;

std::shared_ptr<const Product> cached(const Matrix& a, const Matrix& b, bool with_bias,
                                      const Matrix& c, bool accumulate) {
  static std::mutex mutex;
  static std::map<Key, std::shared_ptr<const Product>> products;
  const Key key{c.rows,          c.columns,    a.columns,       a.row_stride,
                a.column_stride, b.row_stride, b.column_stride, c.row_stride,
                c.column_stride, with_bias,    accumulate,      omp_get_max_threads()};
  const std::lock_guard lock(mutex);
  // Routing gives ever new row counts, so the cache is bounded. Clearing it is simple and rare.
  if (products.size() > 1024) products.clear();
  std::shared_ptr<const Product>& entry = products[key];
  if (!entry) entry = std::make_shared<const Product>(build(a, b, with_bias, c, accumulate));
  return entry;
}

void fill_rows(const float* bias, const Matrix& c, bool accumulate) {
  for (std::int64_t i = 0; i < c.rows; ++i)
    for (std::int64_t j = 0; j < c.columns; ++j) {
      float& element = c.data[i * c.row_stride + j * c.column_stride];
      element = (accumulate ? element : 0.0f) + (bias ? bias[j] : 0.0f);
    }
}

}  // namespace

bool built() { return true; }

void matmul(const Matrix& a, const Matrix& b, const float* bias, const Matrix& c, bool accumulate) {
  if (c.rows == 0 || c.columns == 0) return;
  if (a.columns == 0) return fill_rows(bias, c, accumulate);
  try {
    const std::shared_ptr<const Product> product = cached(a, b, bias != nullptr, c, accumulate);
    thread_local std::vector<std::byte> scratchpad;
    if (scratchpad.size() < product->scratchpad.get_size())
      scratchpad.resize(product->scratchpad.get_size());
    std::unordered_map<int, dnnl::memory> arguments{
        {DNNL_ARG_SRC, {product->a, cpu(), a.data}},
        {DNNL_ARG_WEIGHTS, {product->b, cpu(), b.data}},
        {DNNL_ARG_DST, {product->c, cpu(), c.data}},
        {DNNL_ARG_SCRATCHPAD, {product->scratchpad, cpu(), scratchpad.data()}}};
    if (bias)
      arguments.emplace(DNNL_ARG_BIAS,
                        dnnl::memory(product->bias, cpu(), const_cast<float*>(bias)));
    dnnl::stream stream(cpu());
    product->primitive.execute(stream, arguments);
    stream.wait();
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_out_of_memory) throw std::bad_alloc();
    fail("[linear] oneDNN could not multiply [", a.rows, ",", a.columns, "] by [", b.rows, ",",
         b.columns, "]: ", error.what());
  }
}

}  // namespace penstock::ops::onednn
