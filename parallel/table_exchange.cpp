#include "heddle/parallel/table_exchange.h"

#include <deque>
#include <utility>

#include "heddle/core/device_span.h"
#include "heddle/core/flavour.h"

namespace heddle {
namespace {

/// On the host, whatever fails.
void wait_for([[maybe_unused]] const std::vector<StreamRef>& streams) {
#ifdef HEDDLE_WITH_CUDA
  for (const StreamRef stream : streams) {
    try {
      stream.synchronize();
    } catch (const std::exception&) {
      // The device has failed: nothing runs there any more.
    }
  }
#endif
}

}  // namespace

TableExchange::TableExchange(ExchangeKind kind, std::vector<Device> devices, const Links& links)
    : kind_(kind), devices_(std::move(devices)), links_(links) {}

void TableExchange::begin() {
  streams_.clear();
  for (const Device device : devices_) streams_.push_back(current_stream(device));
}

Exchange& TableExchange::exchange_of(const std::vector<int>& lanes) {
  const auto found = exchanges_.find(lanes);
  if (found != exchanges_.end()) return found->second;
  const int n = static_cast<int>(lanes.size());
  std::vector<Device> devices;
  Links links(n);
  for (int a = 0; a < n; ++a) {
    devices.push_back(devices_[static_cast<size_t>(lanes[static_cast<size_t>(a)])]);
    for (int b = 0; b < n; ++b)
      links.at(a, b) = links_.at(lanes[static_cast<size_t>(a)], lanes[static_cast<size_t>(b)]);
  }
  return exchanges_.emplace(lanes, Exchange(kind_, std::move(devices), links)).first->second;
}

void TableExchange::sum(std::vector<Tensor>& tables, const std::vector<int>& lanes) {
  std::vector<StreamRef> streams;
  std::deque<DeviceSpan> spans;
  for (const int lane : lanes) {
    streams.push_back(streams_[static_cast<size_t>(lane)]);
    spans.emplace_back("exchange statistics", "exchange", streams.back());
  }
  try {
    exchange_of(lanes).all_reduce(tables, streams);
  } catch (...) {
    wait_for(streams);  // what was queued may read the tables, which their lanes let go of now
    throw;
  }
}

ExchangeTraffic TableExchange::traffic() const {
  ExchangeTraffic all(static_cast<int>(devices_.size()));
  for (const auto& [lanes, exchange] : exchanges_) {
    const ExchangeTraffic& part = exchange.traffic();
    all.calls += part.calls;
    all.elements += part.elements;
    for (size_t a = 0; a < lanes.size(); ++a)
      for (size_t b = 0; b < lanes.size(); ++b)
        all.bytes[static_cast<size_t>(lanes[a])][static_cast<size_t>(lanes[b])] += part.bytes[a][b];
  }
  return all;
}

}  // namespace heddle
