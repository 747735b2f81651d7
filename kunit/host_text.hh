// SPDX-License-Identifier: GPL-2.0-only
/* A failed expectation in words, for the programs that run tests on the host. */
#pragma once

#include <string>

#include "kunit/port.h"

namespace rpcordma {

/** The expectation, its values and the notes in force; without the place, and without a newline at the end. */
[[nodiscard]] std::string failure_text(const rpcordma_test_failure &failure);

} // namespace rpcordma
