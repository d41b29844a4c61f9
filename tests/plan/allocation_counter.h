#pragma once

namespace lamina::test {

/// How often this test program has allocated through new, in any thread. Linking allocation_counter.cpp counts them.
long allocations();

}  // namespace lamina::test
