#pragma once

#include <map>
#include <vector>

#include "heddle/parallel/exchange.h"

namespace heddle {

/// Sums small tables of replicas, of any that take part, in the order of the streams that compute:
/// nothing goes on until they are there.
class TableExchange {
 public:
  TableExchange(ExchangeKind kind, std::vector<Device> devices, const Links& links);

  /// From the thread whose current streams are to be used.
  void begin();
  /// tables[i], flat float32 and on the device of replica lanes[i], becomes the sum of all. Nobody
  /// queues anything meanwhile.
  void sum(std::vector<Tensor>& tables, const std::vector<int>& lanes);
  ExchangeTraffic traffic() const;

 private:
  Exchange& exchange_of(const std::vector<int>& lanes);

  ExchangeKind kind_;
  std::vector<Device> devices_;
  Links links_;
  std::vector<StreamRef> streams_;
  std::map<std::vector<int>, Exchange> exchanges_;  // by who takes part: often all
};

}  // namespace heddle
