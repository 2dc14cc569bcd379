#pragma once

#include "cudasim/order.h"

namespace cudasim {

/// Keeps it, and prints it where no test expects it.
void add_order_finding(OrderFinding finding);

}  // namespace cudasim
