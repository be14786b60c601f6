// The state that the copies of a ProcessGroup share. Only the files that implement it use this
// header: group.cpp (operations) and joining.cpp (construction).
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "penstock/base/error.h"
#include "penstock/dist/group_options.h"
#include "penstock/dist/group_table.h"
#include "penstock/dist/identity.h"
#include "penstock/dist/text_capacity.h"
#include "penstock/dist/transport.h"

namespace penstock::dist {

struct GroupState {
  int rank = 0, size = 1;
  bool lost = false, failed_together = false;
  bool under_way = false;  // nobody has waited yet for a start_all_to_all()
  std::vector<std::string> names = {concat("rank 0 on ", host_name())};
  // Shared by groups, which different threads may use.
  std::shared_ptr<std::atomic<double>> seconds = std::make_shared<std::atomic<double>>(0.0);
  std::atomic<double> own_seconds = 0;
  std::string address;          // this machine's address on the route to rank 0
  std::string title = "world";  // for GroupOptions::wrap
  GroupOptions options;
  TextCapacity capacity;  // of gather()
  std::shared_ptr<GroupTable> table;
  std::shared_ptr<Transport> transport;
};

}  // namespace penstock::dist
