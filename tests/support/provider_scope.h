#pragma once

#include "heddle/kernels/provider.h"

namespace heddle::test {

/// Sets the provider for all ops while it lives.
class ProviderScope {
 public:
  explicit ProviderScope(Provider provider) : previous_(heddle::provider()) {
    set_provider(provider);
  }
  ~ProviderScope() { set_provider(previous_); }
  ProviderScope(const ProviderScope&) = delete;
  ProviderScope& operator=(const ProviderScope&) = delete;

 private:
  Provider previous_;
};

}  // namespace heddle::test
