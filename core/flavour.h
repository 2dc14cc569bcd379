#pragma once

// For sources that test HEDDLE_WITH_CUDA, directly or by HEDDLE_DISPATCH. The build looks for this
// include (and for that of kernels/dispatch.h): all other sources are compiled once, for the
// library with CUDA, the one without and the one of cudasim alike.
#ifdef HEDDLE_ANY_FLAVOUR
#error "this source has come to depend on HEDDLE_WITH_CUDA: run cmake again"
#endif
