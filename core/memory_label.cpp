#include "heddle/core/memory_label.h"

namespace heddle {
namespace {

thread_local std::string_view t_label;

}  // namespace

MemoryLabel::MemoryLabel(std::string_view label) : previous_(t_label) { t_label = label; }
MemoryLabel::~MemoryLabel() { t_label = previous_; }
std::string_view MemoryLabel::current() { return t_label; }

}  // namespace heddle
