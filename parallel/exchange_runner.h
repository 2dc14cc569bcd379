#pragma once

#include <memory>
#include <span>
#include <vector>

#include "heddle/core/stream.h"
#include "heddle/core/tensor.h"
#include "heddle/parallel/exchange_plan.h"

namespace heddle {

/// Carries out plans of an Exchange on one kind of device.
class ExchangeRunner {
 public:
  virtual ~ExchangeRunner() = default;
  virtual void run(const ExchangePlan& plan, std::span<Tensor> flats,
                   std::span<const StreamRef> streams) = 0;
};

namespace cuda {
std::unique_ptr<ExchangeRunner> make_exchange_runner(const std::vector<Device>& devices,
                                                     const Links& links);
}  // namespace cuda

}  // namespace heddle
