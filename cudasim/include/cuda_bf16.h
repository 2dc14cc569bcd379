#pragma once

#include "cudasim/bfloat16.h"
