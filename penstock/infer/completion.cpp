#include "penstock/infer/completion.h"

namespace penstock {

std::string_view name(Finish finish) {
  switch (finish) {
    case Finish::end_of_document:
      return "end-of-document";
    case Finish::length:
      return "length";
    case Finish::context:
      return "context";
    case Finish::stop:
      return "stop";
    case Finish::interrupted:
      break;
  }
  return "interrupted";
}

}  // namespace penstock
