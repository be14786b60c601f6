#include "penstock/train/ranks/layer_weights.h"

#include <c10/core/CPUAllocator.h>
#include <c10/core/StorageImpl.h>
#include <torch/types.h>

#include <algorithm>
#include <set>
#include <utility>

#include "penstock/base/error.h"

namespace penstock {
namespace {

/// A tensor of the same memory, without autograd.
at::Tensor alias_of(const at::Tensor& weight) {
  return at::from_blob(weight.data_ptr(), {weight.numel()},
                       at::device(at::kCPU).dtype(weight.dtype()));
}

UnitTensors aliases_of(const LayerUnit& unit) {
  UnitTensors out;
  for (const at::Tensor& weight : unit.weights) out.push_back(alias_of(weight));
  return out;
}

}  // namespace

LayerWeights::LayerWeights(std::vector<LayerUnit> units) : units_(std::move(units)) {
  std::set<std::int64_t> layers;
  for (const LayerUnit& unit : units_) {
    layers.insert(unit.unit.layer);
    for (const at::Tensor& weight : unit.weights)
      PENSTOCK_ASSERT(weight.is_contiguous() && weight.storage_offset() == 0 &&
                      weight.storage().nbytes() == weight.nbytes());
  }
  layers_.assign(layers.begin(), layers.end());
  for (const std::int64_t layer : layers_) {
    std::map<std::size_t, std::size_t> count;
    for (const LayerUnit* unit : units_of(layer))
      for (const at::Tensor& weight : unit->weights) ++count[weight.nbytes()];
    for (const auto& [bytes, weights] : count)
      most_spare_[bytes] = std::max(most_spare_[bytes], 2 * weights);
  }
}

void LayerWeights::connect(UnitExchange dense, UnitExchange experts) {
  dense_ = std::move(dense);
  experts_ = std::move(experts);
}

std::vector<LayerUnit*> LayerWeights::units_of(std::int64_t layer) {
  std::vector<LayerUnit*> out;
  for (LayerUnit& unit : units_)
    if (unit.unit.layer == layer) out.push_back(&unit);
  return out;
}

/// Views and autograd keep the tensor's storage object; only its memory is replaced.
void LayerWeights::allocate(const at::Tensor& weight) {
  c10::StorageImpl* const storage = weight.storage().unsafeGetStorageImpl();
  const auto bytes = static_cast<std::size_t>(weight.numel()) * weight.element_size();
  const auto kept = spare_.find(bytes);
  if (kept == spare_.end()) {
    storage->set_data_ptr_noswap(c10::GetCPUAllocator()->allocate(bytes));
  } else {
    storage->set_data_ptr_noswap(std::move(kept->second));
    spare_.erase(kept);
  }
  storage->set_nbytes(bytes);
}

void LayerWeights::release(const at::Tensor& weight) {
  c10::StorageImpl* const storage = weight.storage().unsafeGetStorageImpl();
  at::DataPtr memory = storage->set_data_ptr(at::DataPtr(nullptr, at::kCPU));
  // More memory than two layers need is freed; there is more after all layers were whole.
  if (memory && spare_.count(storage->nbytes()) < most_spare_[storage->nbytes()])
    spare_.emplace(storage->nbytes(), std::move(memory));
  storage->set_nbytes(0);
}

void LayerWeights::free(std::int64_t layer) {
  for (const LayerUnit* unit : units_of(layer))
    for (const at::Tensor& weight : unit->weights) release(weight);
}

void LayerWeights::gather_unit(LayerUnit& unit) {
  UnitExchange& exchange = unit.unit.experts ? experts_ : dense_;
  exchange.gather(unit.unit, unit.own, aliases_of(unit));
}

void LayerWeights::start_gathering(std::int64_t layer) {
  for (LayerUnit* unit : units_of(layer)) {
    for (const at::Tensor& weight : unit->weights) allocate(weight);
    background_.add([this, unit] { gather_unit(*unit); });
  }
}

void LayerWeights::begin(std::size_t rounds, int passes) {
  for (const std::int64_t layer : layers_) free(layer);
  whole_ = false;
  order_.clear();
  for (std::size_t round = 0; round < rounds; ++round) {
    for (int pass = 0; pass < passes; ++pass)
      order_.insert(order_.end(), layers_.begin(), layers_.end());
    for (int pass = 0; pass < passes; ++pass)
      order_.insert(order_.end(), layers_.rbegin(), layers_.rend());
  }
  next_ = 0;
  if (!order_.empty()) start_gathering(order_.front());
}

void LayerWeights::enter(std::int64_t layer) {
  PENSTOCK_ASSERT(next_ < order_.size() && order_[next_] == layer, "layer ", layer);
  background_.wait();
  if (next_ > 0 && order_[next_ - 1] != layer) free(order_[next_ - 1]);
  ++next_;
  if (next_ < order_.size() && order_[next_] != layer) start_gathering(order_[next_]);
}

void LayerWeights::pass_through() {
  while (next_ < order_.size()) enter(order_[next_]);
  background_.wait();
  if (next_ > 0) free(order_[next_ - 1]);
  order_.clear();
  next_ = 0;
}

void LayerWeights::gather() {
  if (whole_) return;
  for (LayerUnit& unit : units_) {
    for (const at::Tensor& weight : unit.weights) allocate(weight);
    gather_unit(unit);
  }
  whole_ = true;
}

void LayerWeights::take() {
  PENSTOCK_ASSERT(whole_);
  for (LayerUnit& unit : units_) {
    const UnitTensors whole = aliases_of(unit);
    for (std::size_t i = 0; i < unit.spans.size(); ++i)
      unit.own[i].copy_(span_of(whole, unit.spans[i]));
  }
}

}  // namespace penstock
