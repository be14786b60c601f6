#include "penstock/serve/piecewise_reply.h"

#include <utility>

#include "penstock/base/error.h"

namespace penstock::serve {
namespace {

constexpr std::size_t kPieceBytes = 65536;

}  // namespace

PiecewiseReply::PiecewiseReply(std::vector<JsonList> lists, std::string after, Time deadline,
                               std::shared_ptr<const void> held)
    : held_(std::move(held)),
      lists_(std::move(lists)),
      after_(std::move(after)),
      deadline_(deadline) {}

bool PiecewiseReply::next(std::string& out, std::chrono::milliseconds /*patience*/) {
  PENSTOCK_CHECK(std::chrono::steady_clock::now() < deadline_,
                 "the client did not take the answer within the time limit");
  const std::size_t full = out.size() + kPieceBytes;
  while (out.size() < full) {
    if (list_ == lists_.size()) {
      out += after_;
      return false;
    }
    const JsonList& list = lists_[list_];
    if (element_ == 0) out += list.before;
    if (element_ == list.count) {
      ++list_;
      element_ = 0;
      continue;
    }
    if (element_ > 0) out += ',';
    out += list.element(element_++);
  }
  return true;
}

}  // namespace penstock::serve
