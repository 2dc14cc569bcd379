#pragma once

#include "cudasim/half.h"
