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

/// Allows TF32 while it lives.
class Tf32Scope {
 public:
  Tf32Scope() { set_allow_tf32(true); }
  ~Tf32Scope() { set_allow_tf32(false); }
  Tf32Scope(const Tf32Scope&) = delete;
  Tf32Scope& operator=(const Tf32Scope&) = delete;
};

}  // namespace heddle::test
