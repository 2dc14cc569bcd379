#pragma once

// Atomics on global and shared memory, each of which returns the old value. They report their
// access to the checkers.

int atomicAdd(int* address, int value);
unsigned atomicAdd(unsigned* address, unsigned value);
unsigned long long atomicAdd(unsigned long long* address, unsigned long long value);
float atomicAdd(float* address, float value);
double atomicAdd(double* address, double value);

int atomicSub(int* address, int value);
unsigned atomicSub(unsigned* address, unsigned value);

int atomicExch(int* address, int value);
unsigned atomicExch(unsigned* address, unsigned value);
unsigned long long atomicExch(unsigned long long* address, unsigned long long value);
float atomicExch(float* address, float value);

int atomicMin(int* address, int value);
unsigned atomicMin(unsigned* address, unsigned value);
long long atomicMin(long long* address, long long value);
unsigned long long atomicMin(unsigned long long* address, unsigned long long value);

int atomicMax(int* address, int value);
unsigned atomicMax(unsigned* address, unsigned value);
long long atomicMax(long long* address, long long value);
unsigned long long atomicMax(unsigned long long* address, unsigned long long value);

unsigned atomicInc(unsigned* address, unsigned limit);  ///< 0 after limit
unsigned atomicDec(unsigned* address, unsigned limit);  ///< limit after 0 and above limit

int atomicCAS(int* address, int expected, int desired);
unsigned atomicCAS(unsigned* address, unsigned expected, unsigned desired);
unsigned long long atomicCAS(unsigned long long* address, unsigned long long expected,
                             unsigned long long desired);

int atomicAnd(int* address, int value);
unsigned atomicAnd(unsigned* address, unsigned value);
unsigned long long atomicAnd(unsigned long long* address, unsigned long long value);
int atomicOr(int* address, int value);
unsigned atomicOr(unsigned* address, unsigned value);
unsigned long long atomicOr(unsigned long long* address, unsigned long long value);
int atomicXor(int* address, int value);
unsigned atomicXor(unsigned* address, unsigned value);
unsigned long long atomicXor(unsigned long long* address, unsigned long long value);
