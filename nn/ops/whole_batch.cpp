#include "heddle/nn/ops/whole_batch.h"

#include <utility>

namespace heddle {
namespace {

thread_local WholeBatch* t_whole = nullptr;

}  // namespace

WholeBatch* WholeBatch::current() { return t_whole; }

WholeBatch::Scope::Scope(WholeBatch& whole) : previous_(std::exchange(t_whole, &whole)) {}
WholeBatch::Scope::~Scope() { t_whole = previous_; }

}  // namespace heddle
