#!/usr/bin/env bash
# scripts/train.sh [FLAGS OF train_cifar]: installs what is missing, builds, and trains.
# Paths in the flags are relative to the folder from which it is called.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
"$root/scripts/build.sh" train_cifar
exec "$root/build/release/bin/train_cifar" "$@"
